"""What interventions would change at another size: ratios that ``twoclocks widen`` measured, times a forecast."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twoclocks.clocks.forecast import Forecast
from twoclocks.core.errors import UserError
from twoclocks.core.reading import read_file

FILE = "widen.json"
BASE = "base"  # the arm that the others are compared with
MOST_BYTES = 1 << 26
FIX = "give a folder that 'twoclocks widen' wrote"


@dataclass(frozen=True)
class Ratio:
    """By which factor an intervention moves a clock, with its 95% interval."""

    estimate: float | None  # None where all runs on one side are censored: then only an end of the interval is known
    low: float
    high: float  # inf without an upper bound
    found: bool  # whether an effect was found, after correction for all questions of the experiment

    @property
    def best(self) -> float | None:
        """The estimate, or the end of the interval that the data give; None where they give none."""
        if self.estimate is not None:
            return self.estimate
        return self.low if self.low > 0 else self.high if math.isfinite(self.high) else None

    @property
    def bound(self) -> str:
        """What ``best`` is: empty for an estimate, or ``at least`` or ``at most``."""
        return "" if self.estimate is not None else "at least" if self.low > 0 else "at most"

    def applied(self, forecast: Forecast) -> Forecast:
        """The forecast with this effect: each end times the same end of the ratio. Unchanged if none was found.

        Both intervals err to one side in at most 2.5%, so the product of their lower ends does in at most 5%.
        """
        if not self.found or self.best is None:
            return forecast
        low, high = forecast.low * self.low, forecast.high * self.high
        return replace(forecast, median=forecast.median * self.best, low=low, high=high)

    def as_json(self) -> dict[str, Any]:
        high = self.high if math.isfinite(self.high) else None
        return {"ratio": self.estimate, "interval": [self.low, high], "found": self.found}


@dataclass(frozen=True)
class Gain:
    """An intervention, where it was measured, and its effects; None: an effect that could not be estimated."""

    intervention: str
    base: str
    n: int | None  # None: written by an earlier version
    rule: str | None
    memory: Ratio | None
    learned: Ratio | None

    def as_json(self) -> dict[str, Any]:
        return {
            "intervention": self.intervention,
            "measured_on": {"base": self.base, "n": self.n, "rule": self.rule},
            "tau_mem": None if self.memory is None else self.memory.as_json(),
            "learned": None if self.learned is None else self.learned.as_json(),
        }


def read_gains(folder: Path) -> list[Gain]:
    """The interventions of an experiment, in the order of its file."""
    path = folder / FILE
    data = read_file(path, MOST_BYTES, "--widen", FIX)
    try:
        found = json.loads(data)
        n, rule = found.get("n"), found.get("rule")
        check(isinstance(found["base"], str), "base", "a name")
        check(n is None or (type(n) is int and n > 0), "n", "a number of training samples")
        check(rule is None or isinstance(rule, str), "rule", "a name")
        arms = [arm for arm in found["arms"] if arm["arm"] != BASE]
        check(all(isinstance(arm["arm"], str) for arm in arms), "arm", "a name")
        return [
            Gain(
                arm["arm"],
                found["base"],
                n,
                rule,
                *(ratio_of(arm["effects"].get(key)) for key in ("memory", "learned")),
            )
            for arm in arms
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"--widen: {str(path)!r} is not the result of an experiment ({problem}); {FIX}") from None


def ratio_of(effect: Mapping[str, Any] | None) -> Ratio | None:
    """An effect as ``Effect.as_json`` writes it; null is an infinite value, and a ratio of 0 a bound too."""
    if effect is None:
        return None
    ratio, (low, high), found = effect["ratio"], effect["interval"], effect["found"]
    check(all(is_number(value) for value in (ratio, low, high)), "ratio and interval", "numbers of at least 0, or null")
    check(isinstance(found, bool), "found", "true or false")
    low, high = low or 0.0, math.inf if high is None else high
    check(low <= high and high > 0, "interval", "two ends, the lower one first")
    return Ratio(ratio or None, low, high, found)


def is_number(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value < math.inf)


def check(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise ValueError(f"{name} is not {what}")
