"""When to evaluate: a schedule is a plain increasing tuple of steps, made here and passed in as a value."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from twoclocks.core.errors import SettingError


def log_spaced(first: int, last: int, count: int) -> tuple[int, ...]:
    """At most ``count`` distinct steps from first to last, evenly spaced in the logarithm.

    >>> log_spaced(10, 1000, 5)
    (10, 32, 100, 316, 1000)
    """
    if first >= last or count == 1:
        return (last,)
    ratio = last / first
    return tuple(sorted({round(first * ratio ** (i / (count - 1))) for i in range(count)}))


def thinned(schedule: Sequence[int], count: int) -> tuple[int, ...]:
    """At most ``count`` steps of a schedule, with its last, as evenly spaced in the logarithm as it allows.

    >>> thinned((10, 20, 40, 80, 100, 110, 120, 160), 4)
    (10, 20, 80, 160)
    """
    if count >= len(schedule):
        return tuple(schedule)
    if count == 0:
        return ()
    found = set()
    for want in log_spaced(max(schedule[0], 1), schedule[-1], count):
        place = bisect_left(schedule, want)
        near = schedule[max(0, place - 2) : place + 1]  # steps 0 and 1 are equally near
        found.add(min(near, key=lambda step: abs(math.log(max(step, 1) / want))))
    return tuple(sorted(found))


def check_schedule(schedule: Sequence[int], steps: int, at_least: int = 1) -> tuple[int, ...]:
    """The schedule itself, if it increases, ends with the run and has ``at_least`` evaluations."""
    if not schedule:
        raise SettingError("evaluation.steps", list(schedule), "give at least one step, or leave it out")
    if any(later <= earlier for earlier, later in pairwise(schedule)):
        raise SettingError("evaluation.steps", list(schedule), "sort the steps and drop repeated ones")
    if schedule[-1] != steps or schedule[0] < 0:
        fix = f"use steps from 0 upwards that end with training.steps = {steps}"
        raise SettingError("evaluation.steps", list(schedule), fix)
    if len(schedule) < at_least:
        fix = f"clocks.sustain = {at_least} needs as many; raise evaluation.evaluations or lower evaluation.first"
        raise SettingError("evaluation.steps", list(schedule), fix)
    return tuple(schedule)
