"""Confidence bounds that hold at many looks (interim analyses): the error probability is divided among the looks."""

from __future__ import annotations

import bisect
from functools import cache

import numpy as np
from scipy.special import ndtri

from twoclocks.core.arrays import Floats
from twoclocks.core.proportion import clopper_pearson


def tails(looks: int, confidence: float) -> Floats:
    """Error probability at look i = 1, 2, …: α/(i(i+1)); the sum over infinitely many looks is α = 1 − confidence.

    No value depends on how many looks follow, so results stay the same when training continues.

    >>> tails(3, 0.95).round(4).tolist()
    [0.025, 0.0083, 0.0042]
    """
    number = np.arange(1, looks + 1, dtype=np.float64)
    return (1 - confidence) / (number * (number + 1))


def rate_bounds(hits: Floats, trials: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Confidence sequence: lower and upper bounds of the true rate at every look; the rate may change between looks.

    With probability ``confidence`` no lower bound is ever above its rate; likewise for the upper bounds.
    """
    return clopper_pearson(hits, trials, tails(len(hits), confidence))


def mean_bounds(means: Floats, errors: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Confidence sequence of means with standard errors, by the normal approximation."""
    reach = -ndtri(tails(len(means), confidence)) * errors
    return means - reach, means + reach


@cache  # the cells of a sweep ask the same question
def least_samples(rate: float, level: float, looks: int, confidence: float) -> int:
    """Smallest sample size at which the bounds of a measured ``rate`` exclude ``level`` at each of ``looks`` looks."""
    tail = tails(looks, confidence)[-1]

    def excludes_level(samples: int) -> bool:
        low, high = clopper_pearson(rate * samples, samples, tail)
        return bool(low > level if rate > level else high < level)

    enough = 1
    while not excludes_level(enough):
        enough *= 2
    return 1 + bisect.bisect_left(range(1, enough + 1), True, key=excludes_level)
