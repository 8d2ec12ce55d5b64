"""Forecasts of clocks, and how good such forecasts are on runs whose onset is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from twoclocks.analysis.laws import Clock, Point, chosen_onset, law_of, read_points
from twoclocks.clocks.forecast import Forecast, Prior, forecast_run, forecast_size, gap_prior
from twoclocks.clocks.law import check_points, fit_law_unchecked
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.series import Series
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.runs.load import Run

WORDS: dict[Clock, str] = {"tau_mem": "memory", "tau_ext": "extraction"}
COPYING = tuple(WORDS)  # the clocks that can be predicted
EARLY = 4.0  # forecasts of a pilot are evaluated from step τ_mem / EARLY on


@dataclass(frozen=True)
class Judgement:
    """How good forecasts of known onsets are: how many intervals contain them, and how far the medians are off."""

    how: str  # the procedure, in words
    runs: int  # whose onset is known
    tried: int  # forecasts made for them; those of one run are not independent
    held: int  # of them, whose interval contains the onset
    bounded: int  # of them, with a finite upper end
    median_factor: float | None  # typical ratio between a bounded forecast's median and the truth, at least 1
    width: float | None = None  # median ratio between the ends of a bounded interval

    def __str__(self) -> str:
        if not self.tried:
            return f"{self.how}: no forecast could be tested"
        share = f"{self.held} of {self.tried} intervals over {self.runs} runs contain the true onset"
        if self.median_factor is None:
            return f"{self.how}: {share}; none has an upper end"
        off = f"their medians are off by a factor of {self.median_factor:.2f}"
        return f"{self.how}: {share}; {self.bounded} have an upper end, {off}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(how: str, pairs: Sequence[tuple[Forecast, Onset]]) -> Judgement:
    """Compare forecasts with onsets; a forecast holds if its interval overlaps that of the onset.

    An onset that was not observed counts only where it contradicts the forecast, since it cannot confirm one.
    """
    pairs = [(one, truth) for one, truth in pairs if truth.seen or one.high < truth.lower]
    held = sum(one.low <= truth.upper and one.high >= truth.lower for one, truth in pairs)
    bounded = [(one, truth) for one, truth in pairs if math.isfinite(one.high)]
    misses = [abs(math.log(one.median / truth.estimate)) for one, truth in bounded if truth.estimate is not None]
    factor = float(np.exp(np.median(misses))) if misses else None
    width = float(np.median([one.high / one.low for one, _ in bounded if one.low > 0] or [math.inf]))
    runs = len({id(truth) for _, truth in pairs})
    return Judgement(how, runs, len(pairs), held, len(bounded), factor, width if math.isfinite(width) else None)


def check_clock(clock: Clock) -> Clock:
    """The clock, if it is one of copying."""
    if clock not in COPYING:
        raise UnknownNameError("clock", clock, COPYING)
    return clock


def forecast_sizes(
    runs: Sequence[Run], sizes: Sequence[int], clock: Clock = "tau_mem"
) -> tuple[list[Forecast], Judgement]:
    """A clock of copying at other training-set sizes from these pilots; evaluated by leaving out each size in turn."""
    if any(n < 2 for n in sizes):
        raise SettingError("--n", min(sizes), "use numbers of training samples, at least 2")
    points, _ = read_points(runs, check_clock(clock))
    check_kind(points)
    law = law_of(points)
    return [forecast_size(law, n) for n in sizes], judge_each_size(points)


def check_kind(points: Sequence[Point]) -> None:
    """Raise UserError if the runs differ in more than size, seeds and length: one law cannot describe them."""
    kinds = list(dict.fromkeys(point.group for point in points))
    if len(kinds) > 1:
        raise UserError(f"runs: of {len(kinds)} kinds ({'; '.join(kinds)}); give pilots of one kind")


def judge_each_size(points: Sequence[Point]) -> Judgement:
    """How good a law of these points predicts a size that it has not seen, for each size in turn."""
    pairs = []
    for left_out in sorted({point.n for point in points}):
        pairs += judged_size([point for point in points if point.n != left_out], at_size(points, left_out))
    return judge("leaving out each size in turn", pairs)


def judge_largest_size(points: Sequence[Point]) -> Judgement:
    """How good a law of the smaller sizes predicts the largest one: an extrapolation.

    Where no onset of the largest size tells (it was not reached there), the next smaller one is tried.
    """
    for largest in sorted({point.n for point in points}, reverse=True):
        pairs = judged_size([point for point in points if point.n < largest], at_size(points, largest))
        found = judge(f"predicting N = {largest:,} from the smaller sizes", pairs)
        if found.tried:
            return found
    return judge("predicting the largest size from the smaller ones", [])


def at_size(points: Sequence[Point], n: int) -> list[Point]:
    return [point for point in points if point.n == n]


def judged_size(rest: Sequence[Point], left_out: Sequence[Point]) -> list[tuple[Forecast, Onset]]:
    """Forecasts of the points that were left out from a law of the rest, each with its onset; none without a law."""
    sizes, onsets = [point.n for point in rest], [point.onset for point in rest]
    try:
        law = fit_law_unchecked(sizes, onsets, "log-normal", check_points(sizes, onsets, least=3))
    except UserError:
        return []  # too few points are left
    return [(forecast_size(law, point.n), point.onset) for point in left_out]


def forecast_running(run: Run, pilots: Sequence[Run], clock: Clock = "tau_mem") -> tuple[Forecast, Judgement]:
    """A clock of copying of a run from its own curve so far; pilots show how well the loss gap predicts it.

    Evaluated by leaving out each pilot in turn: forecasts at its evaluations from τ/4 to τ are compared with its onset.
    """
    onset = chosen_onset(run.clocks(changes=False), check_clock(clock), run)
    if onset.seen:
        raise UserError(f"{run.path}: {WORDS[clock]} has begun ({onset}); there is nothing to predict")
    known = [pair for pilot in pilots if (pair := gap_and_onset(pilot, clock)) is not None]
    pairs = []
    for index, pilot in enumerate(pilots):
        rest = [other for k, other in enumerate(pilots) if k != index]
        others = [pair for other in rest if (pair := gap_and_onset(other, clock)) is not None]
        pairs += replayed(pilot, others, clock)
    judgement = judge("leaving out each pilot in turn", pairs)
    return forecast_series(run, copying_series(run, clock), known), judgement


def copying_series(run: Run, clock: Clock) -> Series:
    """What was counted as copied: samples (τ_mem), or training texts continued from a prefix (τ_ext)."""
    series = run.series()
    if clock == "tau_mem":
        return series
    assert series.extraction is not None, "its onset has been read"
    return series.extraction


def gap_and_onset(run: Run, clock: Clock) -> tuple[Onset, Onset] | None:
    """τ_gap and a clock of copying of a run, where both are known."""
    clocks = run.clocks(changes=False)
    onset = clocks.memory if clock == "tau_mem" else clocks.extraction
    if clocks.gap is None or clocks.gap.estimate is None or onset is None or onset.estimate is None:
        return None
    return clocks.gap, onset


def forecast_series(run: Run, series: Series, pilots: Sequence[tuple[Onset, Onset]]) -> Forecast:
    """Forecast copying from a series with the run's thresholds; the gap is used with at least three pilots."""
    settings = run.settings.clocks
    prior: tuple[Prior, str] | None = None
    gap = settings.gap_onset(series)
    if gap is not None and len(pilots) >= 3:
        prior = gap_prior(gap, pilots)
    chance = run.copy_chance if series.chance is None else series.chance
    if series.chance is not None:  # measured with the copies, as in τ_ext: their onset is above it
        settings = replace(settings, above_chance=True)
    level = settings.memory_levels(chance).nominal
    return forecast_run(series.steps, series.copied, series.trials, level, chance, prior)


def replayed(run: Run, others: Sequence[tuple[Onset, Onset]], clock: Clock = "tau_mem") -> list[tuple[Forecast, Onset]]:
    """The forecasts at the evaluations shortly before copying began, each with the onset that was observed."""
    truth = chosen_onset(run.clocks(changes=False), clock, run)
    if truth.estimate is None:
        return []
    series = copying_series(run, clock)
    steps = np.asarray(series.steps, dtype=np.float64)
    evaluations = np.flatnonzero((steps >= truth.estimate / EARLY) & (steps < truth.lower))
    return [(forecast_series(run, first_part(series, int(last) + 1), others), truth) for last in evaluations]


def first_part(series: Series, count: int) -> Series:
    """The first ``count`` evaluations of a series."""
    gaps, errors = series.gaps, series.gap_errors
    return Series(
        steps=series.steps[:count],
        trials=series.trials[:count],
        copied=series.copied[:count],
        gaps=None if gaps is None else gaps[:count],
        gap_errors=None if errors is None else errors[:count],
        chance=series.chance,
    )
