"""Sequential change-point detection: when a rate rises above its initial level, without any threshold."""

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
    """The interval of steps in which a rate first rises, detected by a sequential likelihood-ratio test.

    At every look (interim analysis), all cuts of the curve so far into two constant rates are tested against one rate;
    the test is corrected for the number of cuts and looks. At the first detection, the interval contains all cuts that
    are about as likely as the best one, so that later growth does not change it. Without a detection the onset is
    right-censored at 0.

    >>> found = change_point([1, 2, 3, 4, 5], [2, 1, 2, 60, 70], 1000)
    >>> (found.lower, found.upper, found.first_crossing)
    (3.0, 4.0, 4.0)
    """
    step, hit, trial = checked_series(steps, hits, trials)
    permitted = tails(len(step), confidence)
    for last in range(1, len(step)):
        gain = likelihood_ratios(hit[: last + 1], trial[: last + 1])
        if gain.max() > chdtri(1, permitted[last] / last):  # ``last`` cuts are tested at this look
            likely = np.flatnonzero(gain >= gain.max() - chdtri(1, 1 - confidence))
            about: dict[str, Any] = {"first_crossing": float(step[last])}  # the look of the detection
            about["definition"] = definition_of_change(what, confidence)
            return Onset(float(step[likely[0]]), float(step[likely[-1] + 1]), "observed", **about)
    return no_change(confidence, what)


def no_change(confidence: float, what: str) -> Onset:
    """The onset of a change that was not detected: right-censored at 0, since nothing excludes an early, small one."""
    return Onset(0.0, math.inf, "right-censored", definition=definition_of_change(what, confidence))


def definition_of_change(what: str, confidence: float) -> str:
    """The text that defines a change point."""
    return f"change of {what}, bounds of {confidence:.4g}"


def likelihood_ratios(hit: Floats, trial: Floats) -> Floats:
    """Twice the log-likelihood ratio of two rates against one rate, for every cut; 0 where the rate falls."""
    hits, trials = np.cumsum(hit), np.cumsum(trial)
    before = log_likelihood(hits[:-1], trials[:-1])
    after = log_likelihood(hits[-1] - hits[:-1], trials[-1] - trials[:-1])
    ratio = 2 * (before + after - log_likelihood(hits[-1], trials[-1]))
    higher = (hits[-1] - hits[:-1]) * trials[:-1] > hits[:-1] * (trials[-1] - trials[:-1])
    return np.where(higher, ratio, 0.0)


def log_likelihood(hits: Any, trials: Any) -> Floats:
    """Binomial log-likelihood at the best rate, without the binomial coefficient."""
    found: Floats = xlogy(hits, hits / trials) + xlogy(trials - hits, 1 - hits / trials)
    return found
