"""Many looks at one curve: how the permitted error is divided among them, so that looking often stays honest."""

from __future__ import annotations

import bisect

import numpy as np
from scipy.special import ndtri

from twoclocks.core.arrays import Floats
from twoclocks.core.proportion import clopper_pearson


def tails(looks: int, confidence: float) -> Floats:
    """Error permitted at look 1, 2, …: α/(i(i+1)), which adds up to α = 1 − confidence over looks without end.

    No look depends on how many follow, so nothing that was said is taken back when training goes on.

    >>> tails(3, 0.95).round(4).tolist()
    [0.025, 0.0083, 0.0042]
    """
    number = np.arange(1, looks + 1, dtype=np.float64)
    return (1 - confidence) / (number * (number + 1))


def rate_bounds(hits: Floats, trials: Floats, confidence: float) -> tuple[Floats, Floats]:
    """A confidence sequence: lower and upper bounds of the true rate at every look, though it changes between them.

    With probability ``confidence`` no lower bound is ever above its rate; likewise for the upper bounds.
    """
    return clopper_pearson(hits, trials, tails(len(hits), confidence))


def mean_bounds(means: Floats, errors: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The same for means with standard errors, by the normal distribution."""
    reach = -ndtri(tails(len(means), confidence)) * errors
    return means - reach, means + reach


def least_samples(rate: float, level: float, looks: int, confidence: float) -> int:
    """Samples with which a measured ``rate`` is told from the ``level``, by its bounds, at each of so many looks."""
    tail = tails(looks, confidence)[-1]

    def told(samples: int) -> bool:
        low, high = clopper_pearson(rate * samples, samples, tail)
        return bool(low > level if rate > level else high < level)

    enough = 1
    while not told(enough):
        enough *= 2
    return 1 + bisect.bisect_left(range(1, enough + 1), True, key=told)
