"""Forecasts of τ_mem, and how good such forecasts are on runs whose τ_mem is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twoclocks.analysis.laws import Point, law_of, read_points
from twoclocks.clocks.forecast import Forecast, Prior, forecast_run, forecast_size, gap_prior
from twoclocks.clocks.law import check_points, fit_law_unchecked
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.series import Series
from twoclocks.core.errors import SettingError, UserError
from twoclocks.runs.load import Run

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
    return Judgement(how, len({id(truth) for _, truth in pairs}), len(pairs), held, len(bounded), factor)


def forecast_sizes(runs: Sequence[Run], sizes: Sequence[int]) -> tuple[list[Forecast], Judgement]:
    """τ_mem at other training-set sizes from these pilots; evaluated by leaving out each size in turn."""
    if any(n < 2 for n in sizes):
        raise SettingError("--n", min(sizes), "use numbers of training samples, at least 2")
    points, _ = read_points(runs, "tau_mem")
    kinds = list(dict.fromkeys(point.group for point in points))
    if len(kinds) > 1:
        raise UserError(f"runs: of {len(kinds)} kinds ({'; '.join(kinds)}); give pilots of one kind")
    law = law_of(points)
    pairs = []
    for left_out in law.sizes:
        rest = [point for point in points if point.n != left_out]
        try:
            pairs += judged_size(rest, [point for point in points if point.n == left_out])
        except UserError:
            continue  # too few points are left for a law
    return [forecast_size(law, n) for n in sizes], judge("leaving out each size in turn", pairs)


def judged_size(rest: Sequence[Point], left_out: Sequence[Point]) -> list[tuple[Forecast, Onset]]:
    """Forecasts of the points that were left out from a law of the rest, each with its onset."""
    sizes, onsets = [point.n for point in rest], [point.onset for point in rest]
    law = fit_law_unchecked(sizes, onsets, "log-normal", check_points(sizes, onsets, least=3))
    return [(forecast_size(law, point.n), point.onset) for point in left_out]


def forecast_running(run: Run, pilots: Sequence[Run]) -> tuple[Forecast, Judgement]:
    """τ_mem of a run from its own curve so far; pilots show how well the loss gap predicts it.

    Evaluated by leaving out each pilot in turn: forecasts at its evaluations from τ/4 to τ are compared with its onset.
    """
    memory = run.clocks(changes=False).memory
    if memory.seen:
        raise UserError(f"{run.path}: memory has begun ({memory}); there is nothing to predict")
    known = [pair for pilot in pilots if (pair := gap_and_memory(pilot)) is not None]
    pairs = []
    for index, pilot in enumerate(pilots):
        others = [pair for k, other in enumerate(pilots) if k != index and (pair := gap_and_memory(other)) is not None]
        pairs += replayed(pilot, others)
    judgement = judge("leaving out each pilot in turn", pairs)
    return forecast_series(run, run.series(), known), judgement


def gap_and_memory(run: Run) -> tuple[Onset, Onset] | None:
    """τ_gap and τ_mem of a run, where both are known."""
    clocks = run.clocks(changes=False)
    if clocks.gap is None or clocks.gap.estimate is None or clocks.memory.estimate is None:
        return None
    return clocks.gap, clocks.memory


def forecast_series(run: Run, series: Series, pilots: Sequence[tuple[Onset, Onset]]) -> Forecast:
    """Forecast τ_mem from a series with the run's thresholds; the gap is used with at least three pilots."""
    settings = run.settings.clocks
    prior: tuple[Prior, str] | None = None
    gap = settings.gap_onset(series)
    if gap is not None and len(pilots) >= 3:
        prior = gap_prior(gap, pilots)
    level = settings.memory_levels(run.copy_chance).nominal
    return forecast_run(series.steps, series.copied, series.trials, level, run.copy_chance, prior)


def replayed(run: Run, others: Sequence[tuple[Onset, Onset]]) -> list[tuple[Forecast, Onset]]:
    """The forecasts at the evaluations shortly before memory began, each with the onset that was observed."""
    series = run.series()
    truth = run.clocks(changes=False).memory
    if truth.estimate is None:
        return []
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
    )
