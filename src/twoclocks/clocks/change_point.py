"""Sequential change-point detection: when a rate rises above its initial level, without any threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import chdtri, xlogy

from twoclocks.clocks.looks import tails
from twoclocks.clocks.onset import Numbers, Onset, checked_series
from twoclocks.core.arrays import Floats

MARGIN = 1e-3  # by which rounding can change a likelihood ratio; ratios that matter are above 3


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
    permitted = chdtri(1, tails(len(step), confidence)[1:] / np.arange(1, len(step)))  # look i tests i cuts
    for last, (level, largest) in enumerate(zip(permitted, largest_ratios(hit, trial), strict=True), start=1):
        if largest < level - MARGIN:
            continue
        gain = likelihood_ratios(hit[: last + 1], trial[: last + 1])
        if gain.max() > level:
            likely = np.flatnonzero(gain >= gain.max() - chdtri(1, 1 - confidence))
            about: dict[str, Any] = {"first_crossing": float(step[last])}  # the look of the detection
            about["definition"] = definition_of_change(what, confidence)
            return Onset(float(step[likely[0]]), float(step[likely[-1] + 1]), "observed", **about)
    return no_change(confidence, what)


def largest_ratios(hit: Floats, trial: Floats) -> Iterator[float]:
    """The largest of ``likelihood_ratios`` at every look but the first, up to rounding, without testing every cut.

    For two given rates, the log-likelihood of a cut is linear in the hits and trials before it. So the best cut is a
    vertex of the lower convex hull of these points. The hull has about ln n vertices while the rate is constant, and
    each point enters and leaves it once.
    """
    hull: list[tuple[float, float, float]] = []  # trials, hits and log-likelihood before a cut
    hits, trials = float(hit[0]), float(trial[0])
    for more_hits, more_trials in zip(hit[1:].tolist(), trial[1:].tolist(), strict=True):
        while len(hull) > 1 and is_above(hull[-1], hull[-2], (trials, hits)):
            hull.pop()
        hull.append((trials, hits, plain_log_likelihood(hits, trials)))
        hits, trials = hits + more_hits, trials + more_trials
        whole = plain_log_likelihood(hits, trials)
        ratios = [
            before + plain_log_likelihood(hits - h, trials - t) - whole
            for t, h, before in hull
            if (hits - h) * t > h * (trials - t)  # the rate rises
        ]
        yield 2 * max(ratios, default=0.0)


def is_above(middle: tuple[float, float, float], left: tuple[float, float, float], right: tuple[float, float]) -> bool:
    """Whether a point lies on or above the line between two others, and so is no vertex of the lower hull."""
    across = (middle[0] - left[0]) * (right[1] - left[1]) - (middle[1] - left[1]) * (right[0] - left[0])
    return across <= 0


def plain_log_likelihood(hits: float, trials: float) -> float:
    """``log_likelihood`` of one pair of numbers, which numpy computes ten times more slowly."""
    rest = trials - hits
    found = hits * math.log(hits / trials) if hits else 0.0
    return found + rest * math.log(rest / trials) if rest else found


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
