"""P1's test of the time steps·batch/N (Fig. 2H): do runs of different size N, at one batch, memorize at the same time?

The sizes differ and the batch does not, so this tests τ ∝ N. Whether the batch counts too, only runs of several batches
can show (``collapse.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from twoclocks.clocks.curve_times import largest_distance, resampled_crossings
from twoclocks.clocks.law import check_onsets, log_intervals
from twoclocks.clocks.onset import Onset, onset
from twoclocks.clocks.series import Series
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import SettingError, UserError

WITHIN = 1.5  # onsets that differ by at most this factor count as collapsed
LEVELS = (0.1, 0.3, 0.5, 0.9)  # copy rates at which whole curves are compared

Answer = Literal["yes", "no", "undecided"]


@dataclass(frozen=True)
class Spread:
    """The largest of several times divided by the smallest, where each is known as an interval."""

    estimate: float | None  # None where a time is censored
    low: float  # the smallest ratio that the intervals leave possible
    high: float  # the largest; inf where an end is open
    likely: tuple[float, float] | None = None  # 95% by resampled runs and counts; None without curves or if censored

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that decides: 95% where it is known, otherwise what is possible."""
        return self.likely or (self.low, self.high)

    def within(self, factor: float) -> Answer:
        """Whether the ratio is at most ``factor``; undecided where the interval holds both answers."""
        low, high = self.interval
        return "yes" if high <= factor else "no" if low > factor else "undecided"

    @property
    def unknown(self) -> bool:
        """Whether the intervals leave every ratio possible."""
        return self.low == 1 and math.isinf(self.high)

    def __str__(self) -> str:
        low, high = self.interval
        if self.unknown and self.likely is None:
            return "an unknown factor"
        if self.estimate is None or math.isinf(high):
            return f"at least ×{low:.2f}"
        return f"×{self.estimate:.2f} ({'95%: ' if self.likely else ''}{low:.2f} to {high:.2f})"

    def as_json(self) -> dict[str, Any]:
        likely = None if self.likely is None else list(self.likely)
        return {**finite({"estimate": self.estimate, "low": self.low, "high": self.high}), "likely": likely}


@dataclass(frozen=True)
class RescaledTime:
    """An onset on the axis steps·batch/N: the median over the runs of one size, as an interval."""

    low: float
    estimate: float | None  # None where it is censored
    high: float

    def as_json(self) -> dict[str, float | None]:
        return finite(asdict(self))


@dataclass(frozen=True)
class SizeCollapse:
    """How far apart runs of different sizes are on the time steps·batch/N, at one batch.

    With one run per size, intervals contain what evaluations and counts leave open, but not the scatter between seeds:
    the answer is then about these runs.
    """

    batch: int
    factor: float  # within which onsets count as collapsed
    times: Mapping[int, RescaledTime]  # by size
    onsets: Spread
    runs: int
    censored: int
    levels: Mapping[float, Spread] = field(default_factory=dict)  # by copy rate; empty without curves
    distance: float | None = None  # the largest vertical distance between the curves of two sizes at equal time
    distance_at: float | None = None  # that time, as steps·batch/N

    @property
    def answer(self) -> Answer:
        """Whether the onsets collapse within the factor."""
        return self.onsets.within(self.factor)

    @property
    def curve_answer(self) -> Answer | None:
        """Whether the curves collapse at every level; None without curves."""
        answers = {spread.within(self.factor) for spread in self.levels.values()}
        if not answers:
            return None
        return "no" if "no" in answers else "undecided" if "undecided" in answers else "yes"

    @property
    def range(self) -> float:
        """The largest size divided by the smallest; a law τ ∝ N^α spreads onsets by this number to the |α − 1|."""
        return max(self.times) / min(self.times)

    def __str__(self) -> str:
        answer = {
            "yes": f"they collapse within ×{self.factor:g}",
            "no": f"they do not collapse within ×{self.factor:g}",
            "undecided": f"undecided whether they collapse within ×{self.factor:g}",
        }[self.answer]
        runs = f"{self.runs:,} runs" + (f", {self.censored:,} of them censored" if self.censored else "")
        alone = "" if self.runs > len(self.times) else "; one run per size, so without the scatter between seeds"
        where = f"at batch {self.batch:,}, N from {min(self.times):,} to {max(self.times):,} ({runs})"
        return f"{where}, onsets on steps·batch/N are {self.onsets} apart: {answer}{self.curve_words()}{alone}"

    def curve_words(self) -> str:
        """How far apart the whole curves are, as the end of a sentence; empty without curves."""
        known = {level: spread for level, spread in self.levels.items() if not spread.unknown}
        words = [f"{spread} at {level:.0%} copies" for level, spread in known.items()]
        if unknown := [f"{level:.0%}" for level in self.levels if level not in known]:
            words.append(f"unknown at {', '.join(unknown)}, which too few runs reach")
        if self.distance is not None:
            words.append(f"copy rates at equal time at most {self.distance:.2f} apart")
        return f"; curves: {', '.join(words)}" if words else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "factor": self.factor,
            "answer": self.answer,
            "curve_answer": self.curve_answer,
            "range": self.range,
            "runs": self.runs,
            "censored": self.censored,
            "onsets": self.onsets.as_json(),
            "times": {str(n): one.as_json() for n, one in self.times.items()},
            "levels": {f"{level:g}": spread.as_json() for level, spread in self.levels.items()},
            "distance": self.distance,
            "distance_at": self.distance_at,
        }


def collapse_over_sizes(
    sizes: Sequence[int],
    batch: int,
    onsets: Sequence[Onset],
    curves: Sequence[Series] | None = None,
    factor: float = WITHIN,
    sustain: int = 3,
    confidence: float = 0.95,
) -> SizeCollapse:
    """How far apart onsets of runs of different sizes, with the same batch, are on the time steps·batch/N.

    Runs of one size are seeds: their median counts. ``curves`` adds the same for the steps at which copies reach each
    of ``LEVELS``, read as onsets with ``sustain`` and ``confidence``, the vertical distance between curves, and 95%
    intervals by resampled runs and counts. Without curves, bounds are the extremes that the onsets' intervals allow.

    >>> sizes = [64, 128, 256, 512]
    >>> found = collapse_over_sizes(sizes, 32, [Onset(9 * n, 10 * n, "observed") for n in sizes])
    >>> found.answer, round(found.onsets.high, 2)
    ('yes', 1.11)
    """
    if not batch >= 1:
        raise SettingError("batch", batch, "use the number of samples per step, at least 1")
    if not factor >= 1:
        raise SettingError("factor", factor, "use a ratio of at least 1")
    check_onsets(sizes, onsets)
    if len(set(sizes)) < 2:
        raise UserError(f"sizes: all runs have {sizes[0]}; give runs of at least 2 sizes")
    if curves is not None and len(curves) != len(sizes):
        raise UserError(f"curves: {len(curves)} for {len(sizes)} runs; give one per run")
    times = rescaled_times(sizes, batch, onsets)
    apart, levels, spread = None, {}, spread_of(times)
    if curves is not None:
        apart = largest_distance(sizes, batch, curves)
        levels = level_spreads(sizes, batch, curves, sustain, confidence)
        thresholds = {one.threshold for one in onsets}
        if None not in thresholds and len(thresholds) == 1:
            drawn = resampled_crossings(curves, [thresholds.pop() or 0.0], sustain)[0]
            spread = with_likely(spread, sizes, batch, drawn)
    return SizeCollapse(
        batch=batch,
        factor=factor,
        times={n: time_of(row) for n, row in zip(sorted(set(sizes)), times, strict=True)},
        onsets=spread,
        runs=len(onsets),
        censored=sum(one.status != "observed" for one in onsets),
        levels=levels,
        distance=None if apart is None else apart[0],
        distance_at=None if apart is None else apart[1],
    )


def level_spreads(
    sizes: Sequence[int], batch: int, curves: Sequence[Series], sustain: int, confidence: float
) -> dict[float, Spread]:
    """How far apart curves are where they reach each of ``LEVELS``."""
    drawn = resampled_crossings(curves, LEVELS, sustain)
    found = {}
    for number, level in enumerate(LEVELS):
        crossings = [onset(one.steps, one.copied, one.trials, level, sustain, confidence) for one in curves]
        spread = spread_of(rescaled_times(sizes, batch, crossings))
        found[level] = with_likely(spread, sizes, batch, drawn[number])
    return found


def with_likely(spread: Spread, sizes: Sequence[int], batch: int, drawn: Floats) -> Spread:
    """The spread with its 95% interval, given ln of resampled crossings (resamples, runs).

    Runs of one size are resampled too, so that the scatter between seeds counts.
    """
    if spread.estimate is None:
        return spread
    rng, n = np.random.default_rng(0), np.asarray(sizes)
    times = drawn + np.log(batch / n)
    for size in np.unique(n):
        runs = np.flatnonzero(n == size)
        times[:, runs] = np.take_along_axis(times, rng.choice(runs, (len(times), len(runs))), axis=1)
    medians = by_size(sizes, times)
    if not np.isfinite(medians).all():  # some resampled curves do not cross: the bounds decide
        return spread
    low, high = np.exp(np.quantile(np.ptp(medians, axis=1), (0.025, 0.975)))
    return replace(spread, likely=(min(float(low), spread.estimate), max(float(high), spread.estimate)))


def by_size(sizes: Sequence[int], values: Floats) -> Floats:
    """Medians over the runs of each size, along the last axis; sizes in growing order."""
    n = np.asarray(sizes)
    with np.errstate(invalid="ignore"):  # the middle of a time that is too early and one that is too late
        return np.stack([np.median(values[..., n == size], axis=-1) for size in np.unique(n)], axis=-1)


def rescaled_times(sizes: Sequence[int], batch: int, onsets: Sequence[Onset]) -> Floats:
    """ln(τ·batch/N) by size, as rows of lower end, estimate and upper end: medians over the runs of a size.

    The median of lower ends, and that of upper ends, enclose the median of the onsets, censored or not.
    """
    censored = {"left-censored": -math.inf, "right-censored": math.inf}
    middle = [censored.get(one.status, math.nan) if one.estimate is None else math.log(one.estimate) for one in onsets]
    lower, upper = log_intervals(onsets)
    ends = np.array([lower, middle, upper]) + np.log(batch / np.asarray(sizes))
    return by_size(sizes, ends).T


def spread_of(times: Floats) -> Spread:
    """The ratio of the largest to the smallest time, given rows of ln lower end, ln estimate, ln upper end."""
    lower, middle, upper = times.T
    apart = upper[:, None] - lower[None, :]
    np.fill_diagonal(apart, -np.inf)  # one time is not both the largest and the smallest
    # Times can all be equal unless one interval ends before another begins.
    low = max(float(lower.max() - upper.min()), 0.0)
    estimate = float(np.exp(np.ptp(middle))) if np.isfinite(middle).all() else None
    return Spread(estimate, float(np.exp(low)), float(np.exp(apart.max())))


def time_of(row: Floats) -> RescaledTime:
    low, middle, high = (float(value) for value in np.exp(row))
    return RescaledTime(low, middle if 0 < middle < math.inf else None, high)


def finite(values: dict[str, float | None]) -> dict[str, float | None]:
    """The values for JSON, which has no infinity."""
    return {key: None if value is None or math.isinf(value) else value for key, value in values.items()}
