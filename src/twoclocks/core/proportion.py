"""Exact intervals of proportions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv

from twoclocks.core.arrays import Floats


def clopper_pearson(hits: npt.ArrayLike, trials: npt.ArrayLike, tail: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Ends (low, high) of the interval of each proportion that errs with probability ``tail`` at most on either side.

    >>> low, high = clopper_pearson([0, 10], 10, tail=0.025)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.692], [0.308, 1.0])
    """
    found, tried = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    missed = tried - found
    none, every = found == 0, missed == 0  # hits may be fractions, where they are means over pieces of a sample
    low = np.where(none, 0.0, betaincinv(np.where(none, 1, found), missed + 1, tail))
    high = np.where(every, 1.0, betainccinv(found + 1, np.where(every, 1, missed), tail))
    return low, high
