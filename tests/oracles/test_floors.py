"""Loss floors: against quadrature, against the plain squared error, and in the order that theory predicts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks import oracles
from twoclocks.core.errors import UserError
from twoclocks.data.encodings import OneHotImage
from twoclocks.oracles.floors import mean_and_error
from twoclocks.rules import Parity

PARITY = Parity(length=12, group=3)


@pytest.mark.parametrize("sigma", [0.3, 0.8, 2.0])
def test_cube_floor_equals_quadrature(sigma: float) -> None:
    """One bit alone: 1 − E tanh²(y/σ²) over y ~ N(1, σ²), by Gauss–Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    exact = 1 - float(weights @ np.tanh((1 + sigma * nodes) / sigma**2) ** 2) / math.sqrt(2 * math.pi)
    found = oracles.cube_floor(PARITY, sigma, samples=20_000)
    assert found.loss == pytest.approx(exact, abs=4 * found.error) and found.error < 0.005


def test_parity_of_two_bits_is_one_bit_seen_twice() -> None:
    """Pairs of even parity are equal bits: two observations of one bit are equal to one at σ/√2."""
    pair, single = Parity(length=12, group=2), Parity(length=12, group=1)
    twice = oracles.rule_floor(pair, 0.9, samples=20_000)
    once = oracles.cube_floor(single, 0.9 / math.sqrt(2), samples=20_000)
    assert twice.loss == pytest.approx(once.loss, abs=4 * math.hypot(twice.error, once.error))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("exact_k", {"length": 9, "k": 3}),
        ("latin", {"side": 4}),
        ("rhm", {"depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 2}),
    ],
)
def test_floor_is_the_mean_squared_error_of_the_oracle(name: str, settings: dict[str, int]) -> None:
    rule = tc.rules.create(name, **settings)
    for encoding in (None, OneHotImage()):
        oracle = oracles.rule_denoiser(rule, encoding)
        clean = oracle.encoding.encode(rule, rule.sample(20_000, seed=9)).double()
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        sigma = 0.4
        squared = (oracle(clean + sigma * noise, sigma) - clean).square().flatten(1).mean(dim=1)
        found = oracles.rule_floor(rule, sigma, samples=20_000, encoding=encoding)
        scatter = math.hypot(found.error, float(squared.std()) / math.sqrt(len(squared)))
        assert found.loss == pytest.approx(float(squared.mean()), abs=4 * scatter)
        assert found.error < float(squared.std()) / math.sqrt(
            len(squared)
        )  # smaller than the error of the plain estimate


def test_knowing_more_lowers_the_floor() -> None:
    train = tc.data.training_set(PARITY, 16, seed=0)
    for sigma in (0.5, 1.0, 2.0):
        empirical = oracles.empirical_floor(train, sigma)
        rule = oracles.rule_floor(PARITY, sigma)
        cube = oracles.cube_floor(PARITY, sigma)
        assert empirical.loss < rule.loss - 5 * rule.error and rule.loss < cube.loss - 5 * cube.error


def test_floors_meet_at_both_ends_of_the_noise_scale() -> None:
    train = tc.data.training_set(PARITY, 64, seed=0)
    marginal = 2.0 * train.double().mean(dim=0) - 1
    spread = float((1 - marginal.square()).mean())  # at large σ only the mean of the training set is known
    for floor, far in (
        (lambda s: oracles.empirical_floor(train, s), spread),
        (lambda s: oracles.rule_floor(PARITY, s), 1.0),
        (lambda s: oracles.cube_floor(PARITY, s), 1.0),
    ):
        assert floor(0.002).loss < 1e-12
        assert floor(80.0).loss == pytest.approx(far, abs=0.01)


def test_empirical_floor_uses_every_training_row() -> None:
    """Two rows next to each other and one far away: only the pair is hard to distinguish."""
    train = torch.zeros(3, 12, dtype=torch.int64)
    train[1, 0], train[2] = 1, 1
    both = oracles.empirical_floor(train, 0.6, samples=20_000)
    pair = oracles.empirical_floor(train[:2], 0.6, samples=20_000)
    assert both.loss == pytest.approx(pair.loss * 2 / 3, rel=0.05)
    assert both == oracles.empirical_floor(train.numpy(), 0.6, samples=20_000)  # type: ignore[arg-type]


def test_the_standard_error_is_that_of_a_mean() -> None:
    assert mean_and_error(torch.tensor([1.0, 2.0, 3.0, 6.0])) == (3.0, pytest.approx(math.sqrt(14 / 3) / 2))


def test_the_error_shrinks_with_samples_and_is_honest() -> None:
    repeats = [oracles.rule_floor(PARITY, 0.8, samples=400, seed=seed) for seed in range(40)]
    scatter = float(np.std([floor.loss for floor in repeats], ddof=1))
    assert scatter == pytest.approx(np.mean([floor.error for floor in repeats]), rel=0.35)
    with pytest.raises(UserError, match="samples: 1"):
        oracles.rule_floor(PARITY, 0.8, samples=1)
