"""Exact intervals against the binomial distribution itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from twoclocks.core.proportion import clopper_pearson


@pytest.mark.parametrize("tail", [0.025, 0.005, 1e-9])
def test_ends_are_where_the_tails_have_their_probability(tail: float) -> None:
    hits, trials = np.array([1, 3, 50, 99]), np.array([7, 2048, 100, 100])
    low, high = clopper_pearson(hits, trials, tail)
    assert binom.sf(hits - 1, trials, low) == pytest.approx(tail, rel=1e-6)
    assert binom.cdf(hits, trials, high) == pytest.approx(tail, rel=1e-6)


def test_ends_of_nothing_and_everything_are_exact() -> None:
    low, high = clopper_pearson([0, 9, 0], [9, 9, 0], 0.025)
    assert low.tolist()[::2] == [0, 0] and high.tolist()[1:] == [1, 1]
    assert high[0] == pytest.approx(1 - 0.025 ** (1 / 9)) and low[1] == pytest.approx(0.025 ** (1 / 9))


def test_coverage_is_at_least_what_is_promised() -> None:
    hits = np.arange(41)
    low, high = clopper_pearson(hits, 40, 0.025)
    for truth in (0.01, 0.2, 0.5, 0.93):
        weights = binom.pmf(hits, 40, truth)
        assert weights[low > truth].sum() <= 0.025 and weights[high < truth].sum() <= 0.025
