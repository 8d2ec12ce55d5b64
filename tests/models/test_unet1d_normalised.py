"""The U-Net of strings as P2's authors build it: sizes at the start, what it is told, and a slow second version."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from twoclocks import models
from twoclocks.models.base import Network
from twoclocks.models.unet1d_normalised import NormalisedUNet1d

STRINGS = torch.randint(16, (64, 8), generator=torch.Generator().manual_seed(0))


def network(width: int, **more: object) -> Network:
    torch.manual_seed(0)
    return models.create("unet1d", width=width, layout="normalised", **more).build((8,), 16)


def said(model: Network, tokens: Tensor, noise: float) -> Tensor:
    with torch.no_grad():
        out: Tensor = model(tokens, torch.full((len(tokens),), noise))
    return out


@pytest.mark.parametrize("width", [64, 256, 1024, 4096])
def test_the_scale_at_the_start_is_the_same_at_every_width(width: int) -> None:
    """Answers fall as 1/√width, as of a readout in μP; features have size one; every layer has a gradient."""
    model = network(width)
    out = model(STRINGS, torch.full((64,), 0.3))
    assert 0.25 < float(out.detach().std()) * math.sqrt(width) < 0.75
    functional.cross_entropy(out.transpose(1, 2), STRINGS).backward()
    sizes = {name: float(p.grad.square().mean().sqrt()) * width**1.5 for name, p in model.named_parameters()}  # type: ignore[union-attr]
    assert all(math.isfinite(size) and size > 0 for size in sizes.values()), sizes
    inner = [size for name, size in sizes.items() if name.startswith(("down", "up"))]
    assert max(inner) / min(inner) < 30 and min(inner) > 0.003 and max(inner) < 3, sizes


def slow(model: NormalisedUNet1d, tokens: list[int], alpha: float) -> Tensor:
    """The network written token by token, for one string."""

    def unit(values: Tensor) -> Tensor:
        centred = values - values.mean()
        return functional.gelu(centred / (centred.square().mean() + 1e-5).sqrt())

    def times(layer: torch.nn.Module, values: Tensor, power: float) -> Tensor:
        weight = next(layer.parameters()).detach()
        return (weight @ values) / weight.shape[1] ** power

    v, level = 16, []
    for token in tokens:
        chance = torch.full((v,), (1 - alpha) / v)
        chance[token] += alpha
        level.append(times(model.embedding, (chance - 1 / v) / math.sqrt(1 / v - 1 / v**2), 0.5))
    levels = [level]
    for layer in model.down:
        pairs = [torch.cat([levels[-1][i], levels[-1][i + 1]]) for i in range(0, len(levels[-1]), 2)]
        levels.append([unit(times(layer, pair, 0.5)) for pair in pairs])
    now = levels.pop()
    for layer in model.up:
        halves = [half for node in now for half in times(layer, node, 0.5).chunk(2)]
        now = [torch.cat([unit(half), skip]) for half, skip in zip(halves, levels.pop(), strict=True)]
    return torch.stack([times(model.head, node, 1.0) for node in now])


def test_it_is_the_network_written_token_by_token() -> None:
    model = network(24)
    assert isinstance(model, NormalisedUNet1d)
    for row, alpha in zip(STRINGS[:4], (1.0, 0.7, 0.1, 0.0), strict=True):
        assert torch.allclose(said(model, row[None], 1 - alpha)[0], slow(model, row.tolist(), alpha), atol=1e-5)


def test_the_noise_level_comes_through_the_input_alone() -> None:
    told, untold = network(64), network(64, told_noise=False)
    assert not torch.allclose(said(told, STRINGS, 0.2), said(told, STRINGS, 0.7))
    assert torch.equal(said(untold, STRINGS, 0.2), said(untold, STRINGS, 0.7))
    assert torch.equal(said(untold, STRINGS, 0.2), said(told, STRINGS, 0.0))
    assert not said(told, STRINGS, 1.0).any(), "at full noise a token says nothing"


def test_a_mask_says_nothing_and_every_token_reaches_every_other() -> None:
    model = network(32)
    masked = STRINGS[:1].clone()
    masked[0, 3] = -1
    before = said(model, STRINGS[:1], 0.0)
    assert (before != said(model, masked, 0.0)).any(dim=-1).all()
    everything = torch.full((1, 8), -1)
    assert not said(model, everything, 0.0).any()


def test_it_has_no_biases_and_one_rate() -> None:
    model = network(16)
    assert all(parameter.dim() == 2 for parameter in model.parameters())
    assert model.learning_rates("adam") == {} and not model.get_submodule("head").state_dict().keys() - {"weight"}
    drawn = torch.cat([parameter.detach().flatten() for parameter in network(256).parameters()])
    assert abs(float(drawn.std()) - 1) < 0.01 and abs(float(drawn.mean())) < 0.01
