"""Bounds of a proportion that hold for any number of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

Floats = npt.NDArray[np.float64]


def clopper_pearson(hits: Any, trials: Any, tail: Any) -> tuple[Floats, Floats]:
    """Exact lower and upper bound, each wrong with probability ``tail`` at most; arrays of one shape.

    >>> low, high = clopper_pearson(0, 100, 0.025)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0362)
    """
    hit, trial, error = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (hits, trials, tail)))
    some, all_hit = hit > 0, hit >= trial
    low = np.where(some, betaincinv(np.where(some, hit, 1.0), trial - hit + 1, error), 0.0)
    high = np.where(all_hit, 1.0, betaincinv(hit + 1, np.where(all_hit, 1.0, trial - hit), 1 - error))
    return low, high
