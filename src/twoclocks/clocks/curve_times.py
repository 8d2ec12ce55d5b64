"""Memorization curves on the time steps·batch/N: when each run reaches a level, and how far apart the curves are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twoclocks.clocks.series import Series
from twoclocks.core.arrays import Floats

RESAMPLES = 200


def positive_steps(curve: Series) -> tuple[Floats, Floats, Floats]:
    """Steps, copies and trials of the evaluations after step 0, for which a logarithmic axis has no place."""
    step, copied, trials = (
        np.asarray(values, dtype=np.float64) for values in (curve.steps, curve.copied, curve.trials)
    )
    later = step > 0
    return step[later], copied[later], trials[later]


def resampled_crossings(curves: Sequence[Series], levels: Sequence[float], sustain: int) -> Floats:
    """ln of the steps at which resampled curves reach each level to stay there, shape (levels, resamples, runs).

    Counts are drawn again from binomial distributions with the measured rates. inf: never; −inf: from the start.
    """
    rng = np.random.default_rng(0)
    found = np.full((len(levels), RESAMPLES, len(curves)), np.inf)
    for run, curve in enumerate(curves):
        step, copied, trials = positive_steps(curve)
        if len(step):
            rates = rng.binomial(trials.astype(np.int64), copied / trials, (RESAMPLES, len(step))) / trials
            for number, level in enumerate(levels):
                found[number, :, run] = lasting_crossings(np.log(step), rates, level, sustain)
    return found


def lasting_crossings(log_step: Floats, rates: Floats, level: float, sustain: int) -> Floats:
    """Where each row of rates has its first ``sustain`` evaluations in a row above the level, interpolated."""
    above = rates > level
    lasting = above.copy()
    for shift in range(1, sustain):
        lasting[:, :-shift] &= above[:, shift:]
        lasting[:, -shift:] = False
    rows, begin = np.arange(len(rates)), lasting.argmax(axis=1)
    before = np.maximum(begin - 1, 0)
    left, right = rates[rows, before], rates[rows, begin]
    share = np.divide(level - left, right - left, out=np.zeros(len(rates)), where=right > left)
    crossing = log_step[before] + share * (log_step[begin] - log_step[before])
    return np.where(lasting.any(axis=1), np.where(begin == 0, -np.inf, crossing), np.inf)


def largest_distance(sizes: Sequence[int], batch: int, curves: Sequence[Series]) -> tuple[float, float] | None:
    """The largest difference of the mean copy rates of two sizes at equal steps·batch/N, and where it is.

    Curves are interpolated in the logarithm of the time, over the times that all of them reach; None if there are none.
    """
    measured = []
    for size, curve in zip(sizes, curves, strict=True):
        step, copied, trials = positive_steps(curve)
        measured.append((np.log(step * batch / size), copied / trials))
    if not all(len(time) for time, _ in measured):
        return None
    first, last = max(time[0] for time, _ in measured), min(time[-1] for time, _ in measured)
    grid = np.unique(np.concatenate([time for time, _ in measured]))
    grid = grid[(grid >= first) & (grid <= last)]
    if not len(grid):
        return None
    n = np.asarray(sizes)
    rates = np.array([np.interp(grid, time, rate) for time, rate in measured])
    means = np.array([rates[n == size].mean(axis=0) for size in np.unique(n)])
    apart = np.ptp(means, axis=0)
    return float(apart.max()), float(np.exp(grid[apart.argmax()]))
