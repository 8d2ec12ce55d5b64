"""The file of packed images: equal inputs give equal bytes, and every damage is noticed in one line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from twoclocks.core.errors import UserError
from twoclocks.core.packed_file import digest_of
from twoclocks.data.images import PackedImages, duplicates, fetch, pack_dataset, read_packed


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "digits.safetensors"
    fetch("digits", path)
    return path


def small(folder: Path, **options: object) -> PackedImages:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    return pack_dataset(images, folder / "small.safetensors", **options)


def test_the_real_digits_come_back(digits: Path) -> None:
    from sklearn.datasets import load_digits

    packed = read_packed(digits)
    assert packed.pixels.shape == (1797, 1, 8, 8) and packed.pixels.dtype == np.uint8
    assert np.array_equal(np.rint(packed.pixels[:, 0] * (16 / 255)), load_digits().images)
    assert packed.pixels.min() == 0 and packed.pixels.max() == 255
    assert isinstance(packed.pixels, np.memmap) and not packed.pixels.flags.writeable
    assert duplicates(packed) == [] and packed.names[:2] == ("digits:0", "digits:1")
    assert packed.digest == digest_of(packed.pixels)


def test_packing_twice_gives_the_same_bytes_and_other_readers_read_them(digits: Path, tmp_path: Path) -> None:
    again = fetch("digits", tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == digits.read_bytes()
    assert np.array_equal(load_file(digits)["pixels"], again.pixels)


def test_the_digest_is_of_shape_and_pixels_alone(tmp_path: Path) -> None:
    first = small(tmp_path, words="one name")
    assert first.digest == small(tmp_path, words="another name").digest
    grey = first.pixels.reshape(15, 1, 4, 4)
    assert digest_of(grey) != first.digest  # the same bytes as three times as many grey images
    changed = first.pixels.copy()
    changed[4, 2, 3, 3] ^= 1
    assert digest_of(changed) != first.digest


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    small(tmp_path)
    data = path.read_bytes()
    assert len(read_packed(path)) == 5
    rng = np.random.default_rng(1)
    for position in range(0, len(data), 3):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1 << rng.integers(8)]) + data[position + 1 :])
        with pytest.raises(UserError, match=r"small\.safetensors: .*pack the images again"):
            read_packed(path)
    for size in (0, 4, 8, 9, 100, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(UserError, match="pack the images again"):
            read_packed(path)
    path.write_bytes(data + b"x")
    with pytest.raises(UserError, match=r"bytes instead of .*pack the images again"):
        read_packed(path)


def test_foreign_files_give_one_line(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"weights": np.zeros(3)}, tmp_path / "model.safetensors")
    (tmp_path / "deep").write_bytes((4000).to_bytes(8, "little") + b"[" * 4000)
    (tmp_path / "text").write_text("not an image\n" * 10)
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("model.safetensors", "no file of packed images"),
        ("deep", "no file of packed images"),
        ("text", "no file of packed images"),
        ("pipe", "not a regular file"),
        (".", "not a regular file"),
        ("nothing", "No such file"),
        ("a\0b", "no file can have this name"),
    ):
        with pytest.raises(UserError, match=words):
            read_packed(tmp_path / name)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    small(tmp_path)
    before = (tmp_path / "small.safetensors").read_bytes()
    with pytest.raises(UserError, match="no image can be used"):
        pack_dataset([], tmp_path / "small.safetensors")
    for out in (tmp_path, tmp_path / "missing" / "file"):
        with pytest.raises(UserError, match="cannot be written"):
            pack_dataset([np.zeros((2, 2), np.uint8)], out)
    assert (tmp_path / "small.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["small.safetensors"]  # no temporary file is left


def test_duplicates_are_dropped_and_named_or_kept_and_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 256, (3, 4, 4), dtype=np.uint8)
    packed = pack_dataset([a, b, a, c, a, b], tmp_path / "x")
    assert packed.names == ("0", "1", "3") and packed.about["duplicates"] == [["2", "0"], ["4", "0"], ["5", "1"]]
    assert np.array_equal(read_packed(tmp_path / "x").pixels[:, 0], [a, b, c])
    kept = pack_dataset([a, b, a, c, a, b], tmp_path / "x", keep_duplicates=True)
    assert len(kept) == 6 and duplicates(kept) == [("0", "2", "4"), ("1", "5")]
