"""The two limits of infinite width: what one step does to the function must not depend on the width."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import pytest
import torch
from torch import Tensor

from twoclocks import models, objectives
from twoclocks.core.errors import SettingError
from twoclocks.kernels.registry import MixedForm
from twoclocks.models.mlp import MLP
from twoclocks.testing import check_model
from twoclocks.training.optimizer import rate_groups

WIDTHS = (256, 1024, 4096)
Kind = Literal["adam", "sgd"]


def network_of(width: int, limit: str, seed: int = 0) -> MLP:
    torch.manual_seed(seed)
    network = models.create("mlp", width=width, limit=limit).build((16, 1, 1), 2)
    assert isinstance(network, MLP)
    return network


def trained(width: int, limit: str, kind: Kind, steps: int, seed: int) -> tuple[Tensor, Tensor]:
    """Root mean square of the function, and the relative change of its features, after some steps on eight points."""
    network, objective = network_of(width, limit, seed), objectives.FixedNoise(sigma=0.5)
    data = torch.Generator().manual_seed(1)
    clean, probe = (torch.randn(n, 16, 1, 1, generator=data) for n in (8, 64))
    before = network.features(probe).detach()
    rate = {"sgd": 4.0, "adam": 0.02}[kind]
    groups = rate_groups(network, kind, rate)
    optimizer = torch.optim.SGD(groups) if kind == "sgd" else torch.optim.Adam(groups, eps=1e-16)
    for step in range(steps):
        optimizer.zero_grad()
        objective.loss(network, clean, torch.Generator().manual_seed(step)).mean().backward()
        optimizer.step()
    with torch.no_grad():
        moved = (network.features(probe) - before).norm() / before.norm()
        return network(probe, torch.zeros(64)).square().mean().sqrt(), moved


@pytest.mark.parametrize("steps", [1, 8])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("limit", ["ntk", "mean_field"])
def test_the_function_changes_alike_at_every_width(limit: str, kind: Kind, steps: int) -> None:
    sizes, moves = [], []
    for width in WIDTHS:
        found = [trained(width, limit, kind, steps, seed) for seed in range(4)]
        sizes.append(float(torch.stack([size for size, _ in found]).mean()))
        moves.append(float(torch.stack([move for _, move in found]).mean()))
    assert max(sizes) / min(sizes) < 1.08, sizes
    expected = 2.0 if limit == "ntk" else 1.0  # features hold still as 1/√width, or move alike: four times the width
    for narrow, wide in pairwise(moves):
        assert narrow / wide == pytest.approx(expected, rel=0.08), moves


@pytest.mark.parametrize("limit", ["ntk", "mean_field"])
def test_the_formula_unit_by_unit(limit: str) -> None:
    network = network_of(6, limit).requires_grad_(False)
    for weight in network.parameters():
        weight.normal_()
    x = torch.randn(3, 16, 1, 1)
    expected = torch.zeros(3, 16)
    for unit in range(6):
        for row in range(3):
            activity = max(0.0, float(network.hidden.weight[unit] @ x[row].flatten()) / 4)
            expected[row] += network.output.weight[:, unit] * activity
    expected = expected / (6**0.5 if limit == "ntk" else 6)
    assert torch.allclose(network(x, torch.randn(3)).flatten(1), expected, atol=1e-5)


@pytest.mark.parametrize("limit", ["ntk", "mean_field"])
def test_it_starts_at_zero_with_standard_normal_weights(limit: str) -> None:
    network = network_of(4096, limit).requires_grad_(False)
    assert float(network(torch.randn(5, 16, 1, 1), torch.zeros(5)).abs().max()) < 1e-5
    for weight in network.parameters():
        assert float(weight.std()) == pytest.approx(1, abs=0.02) and abs(float(weight.mean())) < 0.02


def test_contract() -> None:
    check_model(models.create("mlp", width=256), (8, 2, 2), 2, objectives.FixedNoise(sigma=0.5))


def test_mixed_precision_is_near_the_exact_one() -> None:
    network, x = network_of(512, "ntk"), torch.randn(20, 16, 1, 1)
    with torch.no_grad():
        network.output.weight.normal_()
        exact = network(x, torch.zeros(20))
        network.fused = MixedForm()
        mixed = network(x, torch.zeros(20))
    assert mixed.dtype == torch.float32 and not torch.equal(mixed, exact)
    assert float((mixed - exact).norm() / exact.norm()) < 0.01


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(SettingError, match=r"model\.width: 9 .*use 10"):
        models.create("mlp", width=9)
