"""The DiT with patches: the plain DiT on the image with each patch moved into channels, and its settings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from twoclocks import models, objectives
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import SettingError
from twoclocks.models.dit import DiT, DiTSettings, sine_cosine_positions
from twoclocks.runs import load_settings
from twoclocks.testing import check_model, check_objective
from twoclocks.testing.contracts import randomised

CASES = [(1, (1, 4, 6)), (2, (1, 4, 6)), (2, (3, 4, 8)), (3, (2, 6, 3)), (4, (3, 8, 4))]  # patch, shape


def settings(patch: int, **change: object) -> DiTSettings:
    made = models.create("dit", **{"width": 32, "depth": 2, "heads": 2, "patch": patch, **change})
    assert isinstance(made, DiTSettings)
    return made


def patches_to_channels(image: Tensor, patch: int) -> Tensor:
    """Pixel by pixel: (n, c, h, w) to (n, c·p², h/p, w/p)."""
    n, channels, rows, columns = image.shape
    out = image.new_empty(n, channels * patch**2, rows // patch, columns // patch)
    for channel in range(channels):
        for row in range(rows):
            for column in range(columns):
                place = (channel * patch + row % patch) * patch + column % patch
                out[:, place, row // patch, column // patch] = image[:, channel, row, column]
    return out


@pytest.mark.parametrize(("patch", "shape"), CASES)
def test_a_patched_dit_is_the_plain_one_on_patches_as_channels(patch: int, shape: tuple[int, ...]) -> None:
    """With the same seed the weights are the same too; patch 1 gives the bits that a DiT without patches gives."""
    generator = torch.Generator().manual_seed(1)
    x, label = torch.randn((5, *shape), generator=generator), torch.randn(5, generator=generator)
    moved = patches_to_channels(x, patch)
    patched, plain = randomised(settings(patch), shape, 2), randomised(settings(1), tuple(moved.shape[1:]), 2)
    assert isinstance(plain, DiT)
    assert patched.state_dict().keys() == plain.state_dict().keys()
    assert all(torch.equal(value, plain.state_dict()[key]) for key, value in patched.state_dict().items())
    assert isinstance(patched, DiT)
    assert torch.equal(patched.positions, sine_cosine_positions(32, shape[1] // patch, shape[2] // patch))
    out = patched(x, label)
    assert out.shape == x.shape and torch.equal(patches_to_channels(out, patch), plain(moved, label))


def test_a_dit_of_patch_1_reads_and_writes_entries_in_their_order() -> None:
    """Without blocks' updates, each token is one entry: what the embedding is given and what the head returns."""
    network = randomised(settings(1), (2, 3, 4), 2)
    x, seen = torch.randn(5, 2, 3, 4), []
    network.embed.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))  # type: ignore[union-attr, operator]
    network.head.register_forward_hook(lambda _, __, out: seen.append(out))  # type: ignore[union-attr, operator]
    out = network(x, torch.zeros(5))
    assert torch.equal(seen[0], x.flatten(2).transpose(1, 2))
    assert torch.equal(out, seen[1].transpose(1, 2).reshape(x.shape))


@pytest.mark.slow
def test_contract() -> None:
    """Every parameter gets a gradient, eight images are learned, every objective samples; rows are independent."""
    check_model(settings(2), (3, 4, 6), 2, objectives.EDM())
    check_objective(objectives.EDM(sampler_steps=6), settings(2), (1, 4, 6), 2)


def test_each_pixel_of_the_output_depends_on_each_pixel_of_the_input() -> None:
    network = randomised(settings(2, depth=1), (1, 4, 6), 2)
    x = torch.randn(1, 1, 4, 6, requires_grad=True)
    for row, column in ((0, 0), (1, 0), (2, 5)):
        x.grad = None
        network(x, torch.zeros(1))[0, 0, row, column].backward()
        assert x.grad is not None and bool((x.grad != 0).all())


@pytest.mark.parametrize("shape", [(1, 5, 6), (1, 6, 5)])
def test_patches_that_do_not_divide_the_image_are_refused(shape: tuple[int, ...]) -> None:
    size = f"{shape[1]}×{shape[2]}"
    with pytest.raises(SettingError, match=rf"patch: 2 is not allowed; images of {size} .*; use 1"):
        settings(2).build(shape, 2)
    with pytest.raises(SettingError, match=r"model\.patch"):
        settings(0)


def test_the_error_names_the_patches_that_divide_the_image() -> None:
    with pytest.raises(SettingError, match=r"patch: 5 is not allowed; images of 12×8 .*; use 1, 2 or 4$"):
        settings(5).check_shape((3, 12, 8))


def test_a_run_checks_the_patch_before_anything_is_built() -> None:
    changed = {"model": {"name": "dit", "patch": 5}, "rule": {"name": "parity", "length": 36, "group": 4}}
    with pytest.raises(SettingError, match=r"model\.patch: 5 .* images of 6×6"):
        load_settings("p1-dit-mini", changed)


def test_runs_without_patches_keep_their_identity() -> None:
    assert "patch" not in to_mapping(settings(1)) and to_mapping(settings(2))["patch"] == 2
    assert settings(1).title == "DiT 32×2" and settings(2).title == "DiT 32×2, patches 2×2"


def test_larger_patches_need_less_memory() -> None:
    shape = (3, 32, 32)
    assert 16 * settings(4).activations(shape, 256) == settings(1).activations(shape, 256)
