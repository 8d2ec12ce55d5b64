"""The study of FP8 rounds as the formats do, in the products of the blocks, and in no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture(autouse=True)
def studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "studies")


@pytest.mark.parametrize(("name", "bits"), [("tf32", 10), ("bfloat16", 7), ("fp8", 3)])
def test_numbers_are_rounded_to_the_bits_of_their_format(name: str, bits: int) -> None:
    """At most half a step away, for some nearly that far, and not away from zero or towards it on average."""
    import fp8_forward

    x = torch.cat([torch.linspace(1, 2, 1 << 14), torch.tensor([448.0])])  # which FP8's scale leaves as they are
    apart = getattr(fp8_forward, name)(x) - x
    half = 2.0 ** -(bits + 1)
    assert 0.9 * half < float(apart[:-1].abs().max()) <= half
    assert abs(float(apart[:-1].mean())) < 0.02 * half and apart[-1] == 0


def slopes(layers: nn.Sequential, x: Tensor) -> list[Tensor]:
    layers.zero_grad()
    layers(x).square().sum().backward()
    return [parameter.grad.clone() for parameter in layers.parameters() if parameter.grad is not None]


def test_only_the_products_of_the_given_weights_are_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    import fp8_forward

    torch.manual_seed(0)
    layers, x = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)), torch.randn(3, 5, 8)
    exact, first = slopes(layers, x), layers[0](x)
    second = layers[1](first)
    for kind in fp8_forward.KINDS:
        with fp8_forward.RoundedProducts([layers[1].weight], kind):
            assert torch.equal(layers[0](x), first) and not torch.equal(layers[1](first), second)
            rounded = slopes(layers, x)
        apart = [float((mine - true).norm() / true.norm()) for mine, true in zip(rounded, exact, strict=True)]
        assert all(0 < value < 0.2 for value in apart), (kind, apart)
    monkeypatch.setitem(fp8_forward.KINDS, "none", (lambda x: x, lambda x: x))
    with fp8_forward.RoundedProducts([layers[1].weight], "none"):
        assert all(torch.allclose(mine, true, rtol=1e-5) for mine, true in zip(slopes(layers, x), exact, strict=True))
