"""Fit τ ∝ x^power for any x that differs between runs (noise level, batch, width), with interval-censored onsets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twoclocks.clocks.law import log_intervals
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.regression import Regression
from twoclocks.core.errors import UserError

VALUES = 3  # different values that a power needs: a line fits any two points


@dataclass(frozen=True)
class Power:
    """A fitted power law τ = a·x^power."""

    a: float
    power: float
    interval: tuple[float, float]  # 95%, by profile likelihood
    points: int
    censored: int

    def predict(self, value: float) -> float:
        """The fitted τ at x = ``value``."""
        return float(self.a * value**self.power)

    def agrees_with(self, claimed: float, tolerance: float) -> bool:
        """Whether the interval contains the claimed power, or the estimate differs from it by at most ``tolerance``."""
        return self.interval[0] <= claimed <= self.interval[1] or abs(self.power - claimed) <= tolerance

    def overlaps(self, other: Power) -> bool:
        """Whether the two confidence intervals overlap."""
        return self.interval[0] <= other.interval[1] and other.interval[0] <= self.interval[1]

    def __str__(self) -> str:
        return f"{self.power:.2f} ({self.interval[0]:.2f} to {self.interval[1]:.2f})"

    def as_json(self) -> dict[str, Any]:
        ends = [end if math.isfinite(end) else None for end in self.interval]
        counts = {"points": self.points, "censored": self.censored}
        return {"a": self.a, "power": self.power, "interval": ends, **counts}


def fit_power(values: Sequence[float], onsets: Sequence[Onset]) -> Power:
    """Fit a power law to ``values``, one per run; censored onsets enter with their censored likelihood.

    >>> sigmas = [0.1, 0.2, 0.4]
    >>> round(fit_power(sigmas, [Onset(9 / s, 11 / s, "observed") for s in sigmas]).power, 6)
    -1.0
    """
    if len(values) != len(onsets):
        raise UserError(f"onsets: {len(onsets)} for {len(values)} values; give one per value")
    if len(set(values)) < VALUES or min(values) <= 0:
        raise UserError(
            f"values: {list(values)} do not identify a power; give at least {VALUES} different positive ones"
        )
    if len({one.definition for one in onsets}) > 1:
        raise UserError("onsets: they have different definitions; fit them separately")
    if len({value for value, one in zip(values, onsets, strict=True) if one.middle is not None}) < VALUES - 1:
        raise UserError(f"onsets: observed at fewer than {VALUES - 1} values; the power is not identified; run longer")
    logs = np.log(np.asarray(values, dtype=np.float64))
    centre = float(logs.mean())
    regression = Regression(np.column_stack([np.ones_like(logs), logs - centre]), *log_intervals(onsets))
    best = regression.fit()
    middle, power = (float(value) for value in best[1][:2])
    return Power(
        a=math.exp(middle - power * centre),
        power=power,
        interval=regression.interval(1, best),
        points=len(onsets),
        censored=len(onsets) - regression.uncensored,
    )


def end_powers(values: Sequence[float], onsets: Sequence[Onset]) -> tuple[float, float] | None:
    """The local powers at the smallest and at the largest value, where they differ with 95% confidence; else None.

    A parabola is fitted to ln τ over ln x; None also where there are too few values for one.

    >>> sizes = [128, 256, 512, 1024]
    >>> bent = [Onset(0.98 * t, 1.02 * t, "observed") for t in (100, 140, 280, 800)]
    >>> [round(power, 1) for power in end_powers(sizes, bent)]
    [0.2, 1.8]
    >>> end_powers(sizes, [Onset(0.98 * s, 1.02 * s, "observed") for s in sizes]) is None
    True
    """
    if len(set(values)) <= VALUES:
        return None
    logs = np.log(np.asarray(values, dtype=np.float64))
    centre = float(logs.mean())
    x = logs - centre
    regression = Regression(np.column_stack([np.ones_like(x), x, x**2]), *log_intervals(onsets))
    best = regression.fit()
    low, high = regression.interval(2, best)
    if low <= 0 <= high:
        return None
    slope, bend = (float(value) for value in best[1][1:3])
    return slope + 2 * bend * float(x.min()), slope + 2 * bend * float(x.max())


def power_difference(
    first: tuple[Sequence[float], Sequence[Onset]], second: tuple[Sequence[float], Sequence[Onset]]
) -> Power:
    """How much larger the power of the second runs is than that of the first: ``power`` and ``interval`` of the result.

    Both have their own constant; ``a`` is the ratio of the second constant to the first at x = 1. Both share one
    scatter. Each is given as its values and its onsets.

    >>> sizes = [128, 256, 512]
    >>> linear, root = ([Onset(9 * s**p, 11 * s**p, "observed") for s in sizes] for p in (1.0, 0.5))
    >>> round(power_difference((sizes, linear), (sizes, root)).power, 3)
    -0.5
    """
    for values, onsets in (first, second):
        fit_power(values, onsets)  # refuses what does not identify a power
    logs = np.log(np.asarray([*first[0], *second[0]], dtype=np.float64))
    centre = float(logs.mean())
    other = np.repeat([0.0, 1.0], [len(first[0]), len(second[0])])
    design = np.column_stack([np.ones_like(logs), logs - centre, other, other * (logs - centre)])
    onsets = [*first[1], *second[1]]
    regression = Regression(design, *log_intervals(onsets))
    best = regression.fit()
    shift, difference = (float(value) for value in best[1][2:4])
    return Power(
        a=math.exp(shift - difference * centre),
        power=difference,
        interval=regression.interval(3, best),
        points=len(onsets),
        censored=len(onsets) - regression.uncensored,
    )
