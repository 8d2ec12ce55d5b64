"""How long a run may train: a number of steps, or a time that pilots' timings turn into steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twoclocks.core.errors import SettingError, UserError
from twoclocks.runs.load import Run

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
FORM = re.compile(r"([0-9]{1,15})(\.[0-9]{1,15})?([hms]?)")
MOST_STEPS = 10**15
FIX = "use a number of steps such as 20000, or a time such as 2h, 30m or 90s"


@dataclass(frozen=True)
class Pace:
    """Seconds of one training step without evaluations: over the pilots that stored their timings."""

    median: float
    fastest: float
    slowest: float
    runs: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Budget:
    """Steps that a run may train; ``pace`` is what turned a time into them."""

    words: str  # as it was given
    steps: int
    pace: Pace | None = None

    def as_json(self) -> dict[str, Any]:
        return {"given": self.words, "steps": self.steps, "pace": None if self.pace is None else self.pace.as_json()}


def read_budget(words: str, pilots: Sequence[Run]) -> Budget:
    """The budget in steps; a time needs pilots with timings.

    >>> read_budget("20000", []).steps
    20000
    """
    seconds = seconds_of(words)
    if seconds is None:
        return Budget(words, int(words))
    pace = pace_of(pilots)
    if pace is None:
        raise SettingError("--budget", words, "no pilot stored how long its steps took; give a number of steps")
    steps = math.floor(min(seconds / pace.median, MOST_STEPS))
    if steps < 1:
        fix = f"one step of the pilots takes {pace.median:.2g} s; give more time"
        raise SettingError("--budget", words, fix)
    return Budget(words, steps, pace)


def seconds_of(words: str) -> float | None:
    """The seconds of a budget that is a time; None for one in steps.

    >>> seconds_of("2h"), seconds_of("1.5m"), seconds_of("500")
    (7200.0, 90.0, None)
    """
    found = FORM.fullmatch(words)
    if found is None or float(found[1] + (found[2] or "")) == 0 or (found[2] and not found[3]):
        raise SettingError("--budget", words, FIX)
    return float(found[1] + (found[2] or "")) * UNITS[found[3]] if found[3] else None


def pace_of(runs: Sequence[Run]) -> Pace | None:
    """The pace of the runs whose timings can be read; None where there are none."""
    found = [seconds for run in runs if (seconds := step_seconds(run)) is not None]
    return Pace(float(np.median(found)), min(found), max(found), len(found)) if found else None


def step_seconds(run: Run) -> float | None:
    """Seconds per training step of a run, without its evaluations; None where they were not stored, or not its own."""
    if run.was_together:
        return None
    try:
        timings = run.timings()
    except (UserError, OSError):
        return None  # other pilots may have theirs, and only a budget in hours needs them
    if not timings or timings["step"][-1] < 1:
        return None
    seconds = float(timings["seconds"][-1] - timings["evaluation_seconds"].sum()) / float(timings["step"][-1])
    return seconds if 0 < seconds < math.inf else None
