"""Images as data: the packed file behind a run, its splits, and errors that name the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.core.errors import SettingError
from twoclocks.core.packed_images import Pixels
from twoclocks.data import held_out, training_set
from twoclocks.data.images import fetch, pack_dataset
from twoclocks.rules.images import Images, packed_images
from twoclocks.testing import check_rule


def pixels(count: int, channels: int = 3, side: int = 6, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, channels), dtype=np.uint8)


def packed(folder: Path, images: Pixels, name: str = "packed.safetensors", keep: bool = False) -> str:
    pack_dataset(list(images), folder / name, keep_duplicates=keep)
    return str(folder / name)


def test_the_built_in_digits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    assert packed_images("digits").digest == fetch("digits", tmp_path / "digits").digest
    assert Images().shape == (1, 8, 8) and Images().symbols == 256


def test_every_image_is_reserved_or_used_and_equal_ones_count_once(tmp_path: Path) -> None:
    images = pixels(50)
    file = packed(tmp_path, np.concatenate([images, images[:20]]), keep=True)
    rule = Images(file=file, reserved=0.3)
    assert rule.shape == (3, 6, 6) and rule.count() == rule.support() == 35 and len(rule.reserved_images()) == 15
    found = torch.cat([rule.enumerate(), rule.reserved_images().long()]).flatten(1)
    expected = torch.from_numpy(images.transpose(0, 3, 1, 2).copy()).long().flatten(1)
    assert torch.equal(torch.unique(found, dim=0), torch.unique(expected, dim=0))
    assert not bool(rule.is_valid(rule.reserved_images()).any())
    assert rule.reserved_images().dtype == torch.uint8
    check_rule(rule)


def test_training_parts_and_held_out_images_share_none_and_grow_from_each_other(tmp_path: Path) -> None:
    rule = Images(file=packed(tmp_path, pixels(60)), reserved=0.1)
    first, second = (training_set(rule, 20, seed=3, part=part) for part in (0, 1))
    rest = held_out(rule, first, 34, seed=3)
    assert len(torch.unique(torch.cat([first, second]), dim=0)) == 40
    assert len(torch.unique(torch.cat([first, rest]), dim=0)) == 54 == rule.support()
    assert torch.equal(training_set(rule, 7, seed=3), first[:7])
    assert not torch.equal(training_set(rule, 20, seed=4), first)
    with pytest.raises(SettingError, match=r"n: 35 .* 34"):
        held_out(rule, first, 35, seed=3)
    with pytest.raises(SettingError, match=r"n: 55 .*54"):
        training_set(rule, 55)


def test_the_digest_is_filled_in_and_guards_the_pixels(tmp_path: Path) -> None:
    file = packed(tmp_path, pixels(10))
    rule = Images(file=file)
    assert len(rule.sha256) == 64 and Images(file=file, sha256=rule.sha256) == rule
    other = packed(tmp_path, pixels(10, seed=1), "other.safetensors")
    with pytest.raises(SettingError, match=r"sha256.*leave sha256 out"):
        Images(file=other, sha256=rule.sha256)


def test_wrong_files_and_shares_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"file.*nowhere.*twoclocks data pack"):
        Images(file=str(tmp_path / "nowhere"))
    (tmp_path / "text").write_text("no images")
    with pytest.raises(SettingError, match=r"file.*no file of packed images"):
        Images(file=str(tmp_path / "text"))
    for share in (1.0, 0.95, 2.0):
        with pytest.raises(SettingError, match="reserved"):
            Images(file=packed(tmp_path, pixels(10)), reserved=share)
    with pytest.raises(SettingError, match=r"file.*pack them with a smaller --size"):
        Images(file=packed(tmp_path, pixels(3, side=150), "large.safetensors"))
    with pytest.raises(SettingError, match=r"encoding.name: 'pixels'"):
        tc.load_settings("demo", {"encoding": {"name": "pixels"}})
