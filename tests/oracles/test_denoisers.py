"""Oracles against brute-force enumeration, and at both ends of the noise scale."""

from __future__ import annotations

import itertools

import pytest
import torch

from twoclocks import oracles
from twoclocks.rules import Parity

SIGMAS = (0.002, 0.05, 0.3, 0.7, 1.5, 5.0, 80.0)


def brute_force(rows: torch.Tensor, y: torch.Tensor, sigma: float) -> torch.Tensor:
    """E[x | y] straight from Bayes' rule: weights exp(−‖y − x‖²/2σ²)."""
    x = 2.0 * rows.double() - 1
    weights = torch.softmax(-(y[:, None] - x[None]).square().sum(dim=2) / (2 * sigma**2), dim=1)
    return weights @ x


def noisy(rule: Parity, sigma: float, n: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    clean = 2.0 * rule.sample(n, seed=1).double() - 1
    # Twice the noise: rows that lie far from where they began must be right too.
    return clean + 2 * sigma * torch.randn(clean.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("group", [1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_rule_oracle_equals_enumeration(group: int, sigma: float) -> None:
    rule = Parity(length=12, group=group)
    every = torch.tensor(list(itertools.product([0, 1], repeat=12)))
    y = noisy(rule, sigma)
    expected = brute_force(every[rule.is_valid(every)], y, sigma)
    assert torch.allclose(oracles.rule_denoiser(rule)(y, sigma), expected, atol=1e-9)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_cube_oracle_equals_enumeration(sigma: float) -> None:
    every = torch.tensor(list(itertools.product([0, 1], repeat=6)))
    y = noisy(Parity(length=6, group=2), sigma)
    assert torch.allclose(oracles.cube_denoiser()(y, sigma), brute_force(every, y, sigma), atol=1e-9)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_empirical_oracle_equals_enumeration_in_any_chunk(sigma: float, chunk: int) -> None:
    rule = Parity(length=12, group=3)
    train = rule.sample(50, seed=5)
    y = noisy(rule, sigma)
    found = oracles.empirical_denoiser(train, chunk=chunk)(y, sigma)
    assert torch.allclose(found, brute_force(train, y, sigma), atol=1e-9)


@pytest.mark.parametrize("group", [2, 3, 36])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rule_oracle_is_finite_at_every_noise_level(group: int, dtype: torch.dtype) -> None:
    rule = Parity(length=36, group=group)
    for sigma in torch.logspace(-2.7, 1.91, 60, dtype=dtype):
        y = noisy(rule, float(sigma)).to(dtype)
        found = oracles.rule_denoiser(rule)(y, sigma)
        assert bool(torch.isfinite(found).all()) and float(found.abs().max()) <= 1


def test_training_sets_of_any_integer_type_are_taken() -> None:
    train = Parity(length=12, group=3).sample(9, seed=0)
    y = torch.randn(5, 12)
    expected = oracles.empirical_denoiser(train)(y, 0.7)
    assert torch.equal(oracles.empirical_denoiser(train.to(torch.uint8))(y, 0.7), expected)


def test_sigma_may_differ_from_row_to_row() -> None:
    rule = Parity(length=12, group=3)
    y = noisy(rule, 1.0, n=3)
    sigma = torch.tensor([0.3, 1.0, 4.0], dtype=torch.float64)
    for oracle in (oracles.rule_denoiser(rule), oracles.cube_denoiser(), oracles.empirical_denoiser(rule.sample(9, 0))):
        together = oracle(y, sigma)
        apart = torch.cat([oracle(y[i : i + 1], float(sigma[i])) for i in range(3)])
        assert torch.allclose(together, apart, atol=1e-12)
