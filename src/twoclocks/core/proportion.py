"""Exact intervals of proportions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv

Floats = npt.NDArray[np.float64]


def clopper_pearson(hits: npt.ArrayLike, trials: npt.ArrayLike, tail: float) -> tuple[Floats, Floats]:
    """Ends (low, high) of the interval of each proportion that errs with probability ``tail`` at most on either side.

    >>> low, high = clopper_pearson([0, 10], 10, tail=0.025)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.692], [0.308, 1.0])
    """
    found, tried = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    missed = tried - found
    low = np.where(found == 0, 0.0, betaincinv(np.maximum(found, 1), missed + 1, tail))
    high = np.where(missed == 0, 1.0, betainccinv(found + 1, np.maximum(missed, 1), tail))
    return low, high
