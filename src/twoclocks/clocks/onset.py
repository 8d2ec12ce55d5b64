"""From a measured curve to a time: the first sustained crossing of a threshold, as an interval between evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from twoclocks.core.errors import SettingError, UserError

Status = Literal["observed", "left-censored", "right-censored"]


@dataclass(frozen=True)
class Onset:
    """The onset lies in (lower, upper].

    observed: between two evaluations; left-censored: already there at the first evaluation (lower = 0);
    right-censored: not there by ``lower``, the last evaluation that is certainly before it (upper = inf).

    >>> Onset(lower=900, upper=1200, status="observed").estimate
    1039.23...
    """

    lower: float
    upper: float
    status: Status
    first_crossing: float | None = None  # the first single evaluation above the threshold, sustained or not
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise SettingError("status", self.status, f"use one of {', '.join(get_args(Status))}")
        at_start = self.status == "left-censored" and self.lower == self.upper == 0  # there before the first update
        if not 0 <= self.lower < self.upper and not at_start:
            raise SettingError("lower", self.lower, f"use a step from 0 to below upper = {self.upper}")
        if math.isinf(self.upper) != (self.status == "right-censored"):
            raise SettingError("upper", self.upper, f"an onset that is {self.status} needs another upper end")

    @property
    def estimate(self) -> float | None:
        """One number for tables: the geometric middle of the interval, since evaluations are log-spaced."""
        return math.sqrt(self.lower * self.upper) if self.status == "observed" and self.lower > 0 else None

    def __str__(self) -> str:
        if self.status == "right-censored":
            return f"not by {self.lower:,.0f}"
        if self.status == "left-censored":
            return f"by {self.upper:,.0f}"
        return f"{self.lower:,.0f}–{self.upper:,.0f}"

    def as_json(self) -> dict[str, Any]:
        """Plain form; JSON has no infinity, so an open end is null."""
        return {**asdict(self), "upper": None if math.isinf(self.upper) else self.upper}


def onset(
    steps: Sequence[int] | np.ndarray[Any, Any],
    hits: Sequence[float] | np.ndarray[Any, Any],
    trials: int | Sequence[int] | np.ndarray[Any, Any],
    threshold: float,
    sustain: int = 3,
) -> Onset:
    """First step from which ``hits/trials`` exceeds the threshold for ``sustain`` consecutive evaluations.

    A streak that the end of the run cuts short proves nothing: the onset is then right-censored at the last evaluation
    before the streak.

    >>> onset([10, 20, 30, 40, 50], [0, 0, 5, 8, 9], 10, threshold=0.3, sustain=3)
    Onset(lower=20.0, upper=30.0, status='observed', first_crossing=30.0, threshold=0.3)
    """
    step, rate = checked_series(steps, hits, trials)
    if not 0 < threshold < 1:
        raise SettingError("threshold", threshold, "use a number between 0 and 1")
    if not isinstance(sustain, int) or sustain < 1:
        raise SettingError("sustain", sustain, "use a whole number of at least 1")
    above = rate > threshold
    crossings = np.flatnonzero(above)
    first = float(step[crossings[0]]) if len(crossings) else None
    begin = first_streak(above, sustain)
    if begin is None:
        below = np.flatnonzero(~above)
        # An unfinished streak at the very end leaves open whether the onset has begun.
        last_certain = float(step[below[-1]]) if len(below) else 0.0
        return Onset(last_certain, math.inf, "right-censored", first, threshold)
    if begin == 0:
        return Onset(0.0, float(step[0]), "left-censored", first, threshold)
    return Onset(float(step[begin - 1]), float(step[begin]), "observed", first, threshold)


def first_streak(above: np.ndarray[Any, Any], length: int) -> int | None:
    """Index at which the first run of ``length`` true values begins."""
    run = 0
    for index, value in enumerate(above):
        run = run + 1 if value else 0
        if run == length:
            return index - length + 1
    return None


def checked_series(
    steps: Any, hits: Any, trials: Any
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    step, hit = np.asarray(steps, dtype=np.float64), np.asarray(hits, dtype=np.float64)
    trial = np.asarray(trials, dtype=np.float64)
    if step.ndim != 1 or len(step) == 0:
        raise UserError("steps: the series is empty; give at least one evaluation")
    if hit.shape != step.shape:
        raise UserError(f"hits: {len(hit)} values for {len(step)} steps; give one a step")
    if trial.ndim and trial.shape != step.shape:
        raise UserError(f"trials: {len(trial)} values for {len(step)} steps; give one number, or one a step")
    if (np.diff(step) <= 0).any():
        raise UserError("steps: they do not increase; sort the evaluations and drop repeated steps")
    if not np.isfinite(step).all() or not np.isfinite(hit).all():
        raise UserError("hits: a value is not finite; an evaluation that failed must be left out, not counted")
    if (trial < 1).any() or (hit < 0).any() or (hit > trial).any():
        raise UserError("hits: they must lie between 0 and trials, with at least 1 trial each")
    return step, hit / trial
