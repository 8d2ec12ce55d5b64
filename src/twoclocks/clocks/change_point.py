"""A cross-check that needs no threshold: when does a curve leave the level at which it began?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import chdtri, xlogy

from twoclocks.clocks.looks import tails
from twoclocks.clocks.onset import Numbers, Onset, checked_series
from twoclocks.core.arrays import Floats


def change_point(
    steps: Numbers, hits: Numbers, trials: int | Numbers, confidence: float = 0.95, what: str = "rate"
) -> Onset:
    """The evaluation from which the rate is higher than before, found when the likelihood ratio first says so.

    At every look all ways to cut the curve so far into two constant rates are compared with one rate; the alarm
    is corrected for cuts and looks. The interval holds all cuts that are about as likely as the best one at the alarm,
    so that later growth does not drag it along. Without an alarm nothing is claimed: right-censored from 0 on.

    >>> found = change_point([1, 2, 3, 4, 5], [2, 1, 2, 60, 70], 1000)
    >>> (found.lower, found.upper, found.first_crossing)
    (3.0, 4.0, 4.0)
    """
    step, hit, trial = checked_series(steps, hits, trials)
    words = f"change of {what}, bounds of {confidence:.4g}"
    about: dict[str, Any] = {"definition": words}
    permitted = tails(len(step), confidence)
    for last in range(1, len(step)):
        gain = rises(hit[: last + 1], trial[: last + 1])
        if gain.max() > chdtri(1, permitted[last] / last):  # ``last`` cuts are compared at this look
            likely = np.flatnonzero(gain >= gain.max() - chdtri(1, 1 - confidence))
            about["first_crossing"] = float(step[last])  # the look at which it was noticed
            return Onset(float(step[likely[0]]), float(step[likely[-1] + 1]), "observed", **about)
    return Onset(0.0, math.inf, "right-censored", **about)


def rises(hit: Floats, trial: Floats) -> Floats:
    """Twice the log likelihood ratio of two rates against one, for every cut; 0 where the rate falls."""
    hits, trials = np.cumsum(hit), np.cumsum(trial)
    before, after = likelihood(hits[:-1], trials[:-1]), likelihood(hits[-1] - hits[:-1], trials[-1] - trials[:-1])
    ratio = 2 * (before + after - likelihood(hits[-1], trials[-1]))
    higher = (hits[-1] - hits[:-1]) * trials[:-1] > hits[:-1] * (trials[-1] - trials[:-1])
    return np.where(higher, ratio, 0.0)


def likelihood(hits: Any, trials: Any) -> Floats:
    """Log likelihood at the best rate, without the factor that depends on the data alone."""
    found: Floats = xlogy(hits, hits / trials) + xlogy(trials - hits, 1 - hits / trials)
    return found
