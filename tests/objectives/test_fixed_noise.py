"""The objective of one noise level against exact denoisers: of the training set, and of the normal distribution."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from twoclocks import models, oracles
from twoclocks.data import GaussianPoints, training_set
from twoclocks.objectives import FixedNoise, sample
from twoclocks.rules import Free
from twoclocks.testing import check_objective

SIGMA = math.sqrt(0.032)


def zero(y: Tensor, label: Tensor) -> Tensor:
    return torch.zeros_like(y)


def points(n: int, dimension: int = 64) -> tuple[Tensor, oracles.Denoiser]:
    """A training set as points (n, dimension, 1, 1) and the exact denoiser of this set."""
    rule, encoding = Free(alphabet=4096), GaussianPoints(dimension=dimension)
    rows = training_set(rule, n)
    return encoding.encode(rule, rows).double(), oracles.empirical_denoiser(rows, rule, encoding)


@pytest.mark.parametrize("limit", ["ntk", "mean_field"])
def test_contract(limit: str) -> None:
    check_objective(FixedNoise(sampler_steps=4), models.create("mlp", width=64, limit=limit), (5, 2, 3), 2)


def test_zero_has_loss_one_and_the_population_s_denoiser_less() -> None:
    """For x ~ N(0, 1) the best prediction of the noise is σy/(1 + σ²), and it leaves 1/(1 + σ²)."""
    clean = torch.randn(20_000, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for sigma in (0.2, 1.0, 3.0):
        objective = FixedNoise(sigma=sigma)
        noise = torch.Generator().manual_seed(1)
        assert float(objective.loss(zero, clean, noise).mean()) == pytest.approx(1, abs=0.01)
        best = objective.loss(lambda y, label, s=sigma: s * y / (1 + s**2), clean, noise).mean()  # type: ignore[misc]
        assert float(best) == pytest.approx(1 / (1 + sigma**2), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [SIGMA, 1.0, 2.0])
def test_loss_of_the_memorizing_denoiser_is_the_exact_floor(sigma: float) -> None:
    """Its error in the noise is its error in x, divided by σ: the posterior variance over σ²."""
    clean, oracle = points(32, dimension=8)
    objective, many = FixedNoise(sigma=sigma), clean.repeat(100, 1, 1, 1)
    (noise,) = objective.draw(many, torch.Generator().manual_seed(0))
    found = objective.loss_given(objective.network_of(oracle), many, noise)
    floor = oracle.variance(many + sigma * noise, sigma) / sigma**2
    difference = found - floor
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / math.sqrt(len(many)) + 1e-12
    best, moved = float(found.mean()), objective.network_of(lambda y, s: 1.02 * oracle(y, s))
    assert best < float(objective.loss_given(moved, many, noise).mean())


def test_samples_of_the_memorizing_denoiser_end_at_training_points() -> None:
    clean, oracle = points(32)
    objective = FixedNoise(sigma=SIGMA, sampler_steps=3)
    noise = objective.draw_noise(200, (64, 1, 1), torch.Generator().manual_seed(0)).double()
    found = sample(objective, objective.network_of(oracle), noise)
    distance = torch.cdist(found.flatten(1), clean.flatten(1))
    assert float(distance.amin(dim=1).max()) < 1e-6
    assert len(distance.argmin(dim=1).unique()) > 16  # many different ones


def test_samples_of_the_zero_network_are_their_noise_blurred() -> None:
    objective = FixedNoise(sigma=0.5)
    noise = objective.draw_noise(9, (4, 1, 1), torch.Generator().manual_seed(0))
    assert torch.allclose(sample(objective, zero, noise), math.sqrt(1.25) * noise)
