"""Onsets: the interval of steps that contains the first lasting crossing of a threshold by a measured curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.looks import mean_bounds, rate_bounds
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import SettingError, UserError

Status = Literal["observed", "left-censored", "right-censored"]
Numbers = Sequence[float] | np.ndarray[Any, Any]

WITHOUT_RULE = "no rule is known"  # the definition of a rule clock that cannot be read


@dataclass(frozen=True)
class Onset:
    """The step at which a curve crosses its threshold, known to lie in (lower, upper].

    observed: between two evaluations; left-censored: no evaluation is below the threshold with confidence (lower = 0);
    right-censored: not reached; ``lower`` is the last evaluation that is below with confidence (upper = inf). It may
    still be suspected: some evaluation is above with confidence, but no streak of them is long enough.

    >>> Onset(lower=900, upper=1200, status="observed").estimate
    1039.23...
    """

    lower: float
    upper: float
    status: Status
    first_crossing: float | None = None  # the first evaluation above the threshold, without confidence bounds
    interpolated: float | None = None  # where the measured curve has its lasting crossing, between evaluations
    threshold: float | None = None
    definition: str | None = None  # in words; onsets of different definitions must not be fitted together
    # The first evaluation above the threshold with confidence, lasting or not, and the one before it (0 if none).
    suspected: tuple[float, float] | None = None
    suspected_again: float | None = None  # the first such evaluation after ``lower``, where ``lower`` is after that one

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise SettingError("status", self.status, f"use one of {', '.join(get_args(Status))}")
        at_start = self.status == "left-censored" and self.lower == self.upper == 0  # reached before the first update
        if not 0 <= self.lower < self.upper and not at_start:
            raise SettingError("lower", self.lower, f"use a step from 0 to below upper = {self.upper}")
        if math.isinf(self.upper) != (self.status == "right-censored"):
            raise SettingError(
                "upper", self.upper, f"a right-censored onset, and no other, has upper = inf; this one is {self.status}"
            )
        if self.suspected is not None and self.suspected != (0, 0) and not 0 <= self.suspected[0] < self.suspected[1]:
            raise SettingError("suspected", self.suspected, "use two steps of at least 0, the earlier one first")

    def defined(self, definition: str) -> Onset:
        """The same onset with another text as its definition."""
        return replace(self, definition=definition)

    @property
    def seen(self) -> bool:
        """Whether the onset was reached, at the confidence of its bounds."""
        return self.status != "right-censored"

    @property
    def suspected_since(self) -> float | None:
        """The step since which the onset is suspected but not confirmed; None if it was reached or excluded again."""
        if self.seen or self.suspected is None:
            return None
        # Equal only if both are 0: the suspicion is at step 0, and no evaluation is below.
        return self.suspected[1] if self.lower <= self.suspected[1] else self.suspected_again

    @property
    def middle(self) -> float | None:
        """Geometric mean of the ends, since evaluations are log-spaced; None where an end is open."""
        return math.sqrt(self.lower * self.upper) if self.status == "observed" and self.lower > 0 else None

    @property
    def estimate(self) -> float | None:
        """Point estimate: the interpolated crossing if it lies in the interval, else the middle; None if censored."""
        inside = self.interpolated is not None and self.lower <= self.interpolated <= self.upper
        return self.interpolated if inside and self.middle is not None else self.middle

    def __str__(self) -> str:
        if self.definition == WITHOUT_RULE:
            return "no rule"
        if self.status == "right-censored":
            return f"not by {self.lower:,.0f}"
        if self.status == "left-censored":
            return f"by {self.upper:,.0f}"
        return f"{self.lower:,.0f}–{self.upper:,.0f}"

    def as_json(self) -> dict[str, Any]:
        """The onset as a JSON object; JSON has no infinity, so an open end is null."""
        suspected = None if self.suspected is None else list(self.suspected)
        return {**asdict(self), "upper": None if math.isinf(self.upper) else self.upper, "suspected": suspected}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Onset:
        """The inverse of ``as_json``."""
        known = {key: plain[key] for key in cls.__dataclass_fields__ if key in plain}
        if known.get("suspected") is not None:
            known["suspected"] = tuple(known["suspected"])
        return cls(**{**known, "upper": math.inf if plain["upper"] is None else plain["upper"]})


def onset(
    steps: Numbers,
    hits: Numbers,
    trials: int | Numbers,
    threshold: float,
    sustain: int = 3,
    confidence: float = 0.95,
    margins: tuple[float, float] = (0.0, 0.0),
) -> Onset:
    """The onset at which ``hits/trials`` rises above the threshold for ``sustain`` evaluations in a row.

    ``upper`` is the first of so many evaluations in a row whose lower confidence bound lies above the threshold,
    ``lower`` the last one before it whose upper bound lies below. Bounds are exact and corrected for the number of
    looks (``clocks/looks.py``). ``confidence=0`` uses the measured rates without bounds, as P1 does. ``margins``: how
    much lower and how much higher the threshold may be, where it is uncertain itself; they widen the bounds.

    >>> onset([10, 20, 30, 40, 50], [0, 0, 50, 80, 90], 100, threshold=0.3)
    Onset(lower=20.0, upper=30.0, status='observed', first_crossing=30.0, interpolated=25.5..., threshold=0.3, ...)
    """
    step, hit, trial = checked_series(steps, hits, trials)
    check_definition(sustain, confidence)
    if not 0 < threshold < 1:
        raise SettingError("threshold", threshold, "use a number between 0 and 1")
    rate = hit / trial
    low, high = rate_bounds(hit, trial, confidence) if confidence > 0 else (rate, rate)
    bounds = low - margins[1], high + margins[0]
    return crossing(
        step, rate, bounds, threshold, sustain, definition_of(f"rate above {threshold:.4g}", sustain, confidence)
    )


def gap_onset(
    steps: Numbers, gaps: Numbers, errors: Numbers, threshold: float, sustain: int = 3, confidence: float = 0.95
) -> Onset:
    """The onset at which a mean, such as held-out loss minus training loss, rises above the threshold (P2).

    ``errors`` are standard errors of the means; with ``confidence=0`` they are not used.
    """
    step, gap, error = (np.asarray(values, dtype=np.float64) for values in (steps, gaps, errors))
    check_steps(step)
    check_definition(sustain, confidence)
    for name, values in (("gaps", gap), ("errors", error)):
        if values.shape != step.shape or not np.isfinite(values).all():
            raise UserError(f"{name}: give one finite value per step ({len(step)}); got {values.tolist()[:6]} …")
    if (error < 0).any():
        raise UserError(f"errors: {error.min():g} is not a standard error; give numbers of at least 0")
    if not math.isfinite(threshold):
        raise SettingError("threshold", threshold, "use a finite number")
    bounds = mean_bounds(gap, error, confidence) if confidence > 0 else (gap, gap)
    return crossing(
        step, gap, bounds, threshold, sustain, definition_of(f"gap above {threshold:.4g}", sustain, confidence)
    )


def crossing(
    step: Floats, value: Floats, bounds: tuple[Floats, Floats], threshold: float, sustain: int, definition: str
) -> Onset:
    """The onset of any curve with lower and upper bounds; all onsets are defined here."""
    low, high = bounds
    bounds_above, bounds_below = low > threshold, high <= threshold
    above = value > threshold
    first = float(step[np.argmax(above)]) if above.any() else None
    about: dict[str, Any] = {
        "first_crossing": first,
        "interpolated": interpolate(step, value, threshold, sustain),
        "threshold": threshold,
        "definition": definition,
    }
    if bounds_above.any():
        index = int(np.argmax(bounds_above))
        about["suspected"] = (float(step[index - 1]) if index else 0.0, float(step[index]))
    begin = first_streak(bounds_above, sustain)
    before = np.flatnonzero(bounds_below[:begin])
    lower = float(step[before[-1]]) if len(before) else 0.0
    if begin is None:
        # A streak that the end of the run cuts short is a suspicion, not an onset; ``lower`` lies before it.
        again = step[bounds_above & (step > lower)]
        if len(again) and lower > about["suspected"][1]:
            about["suspected_again"] = float(again[0])
        return Onset(lower, math.inf, "right-censored", **about)
    return Onset(lower, float(step[begin]), "observed" if len(before) else "left-censored", **about)


def interpolate(step: Floats, value: Floats, threshold: float, sustain: int) -> float | None:
    """Where measured values have their lasting crossing, by linear interpolation in the logarithm of the step."""
    begin = first_streak(value > threshold, sustain)
    if not begin:  # no crossing, or above from the first evaluation
        return None
    share = (threshold - value[begin - 1]) / (value[begin] - value[begin - 1])
    left, right = step[begin - 1], step[begin]
    return float(left + share * right if left == 0 else left * (right / left) ** share)


def first_streak(above: npt.NDArray[np.bool_], length: int) -> int | None:
    """Index at which the first run of ``length`` true values begins."""
    run = 0
    for index, value in enumerate(above):
        run = run + 1 if value else 0
        if run == length:
            return index - length + 1
    return None


def definition_of(what: str, sustain: int, confidence: float) -> str:
    """The text that defines an onset; onsets with different texts must not be fitted together."""
    bounds = f"bounds of {confidence:.4g}" if confidence > 0 else "no bounds"
    return f"{what}, {sustain} in a row, {bounds}"


def check_definition(sustain: int, confidence: float) -> None:
    """Raise SettingError if ``sustain`` or ``confidence`` is out of range."""
    if not isinstance(sustain, int) or sustain < 1:
        raise SettingError("sustain", sustain, "use an integer of at least 1")
    if not 0 <= confidence < 1:
        raise SettingError("confidence", confidence, "use a number below 1, or 0 for no bounds")


def check_steps(step: Floats) -> None:
    """Raise UserError unless steps are finite, at least 0 and increasing."""
    if step.ndim != 1 or len(step) == 0:
        raise UserError("steps: the series is empty; give at least one evaluation")
    if not np.isfinite(step).all() or step[0] < 0:
        raise UserError("steps: one is not a number of at least 0; give the step of every evaluation")
    if (np.diff(step) <= 0).any():
        raise UserError("steps: they do not increase; sort the evaluations and drop repeated steps")


def checked_series(steps: Any, hits: Any, trials: Any) -> tuple[Floats, Floats, Floats]:
    """Check steps, hits and trials and return them as arrays with one value per step."""
    step, hit, trial = (np.asarray(values, dtype=np.float64) for values in (steps, hits, trials))
    check_steps(step)
    if hit.shape != step.shape:
        raise UserError(f"hits: {hit.size} values for {len(step)} steps; give one per step")
    if trial.ndim and trial.shape != step.shape:
        raise UserError(f"trials: {trial.size} values for {len(step)} steps; give one number, or one per step")
    if not np.isfinite(hit).all():
        raise UserError("hits: a value is not finite; an evaluation that failed must be left out, not counted")
    if not (trial >= 1).all() or (hit < 0).any() or (hit > trial).any():
        raise UserError("hits: they must lie between 0 and trials, with at least 1 trial each")
    return step, hit, np.broadcast_to(trial, step.shape)
