"""One clock over several seeds: the steps at which it was reached, in words and as marks in a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.core.theme import light
from twoclocks.papers.as_printed import PRINTED, printed_clocks
from twoclocks.papers.records import Records

UNREACHED = "↑ not reached by the end of the run"


@dataclass(frozen=True)
class Times:
    """The step of a clock in each run that reached it, and the last step of each run that did not."""

    reached: tuple[float, ...]
    limits: tuple[float, ...]
    early: bool = False  # some run had reached it at its first evaluation: the step is an upper bound

    @classmethod
    def of(cls, onsets: Iterable[Onset]) -> Times:
        known = list(onsets)
        seen = [one for one in known if one.seen]
        steps = tuple(one.estimate if one.estimate is not None else one.upper for one in seen)
        limits = tuple(one.lower for one in known if not one.seen)
        return cls(steps, limits, any(one.estimate is None for one in seen))

    @property
    def middle(self) -> float | None:
        """Median over all runs, where one that did not reach it is later than any that did; None if it is among those.

        >>> Times((100, 300), (1000,)).middle
        300
        """
        found = median([*self.reached, *(math.inf for _ in self.limits)]) if self.reached else math.inf
        return found if math.isfinite(found) else None

    def __str__(self) -> str:
        """Such as ``2,610 (2,430–3,020)``, ``by 300``, ``not by 8,000``, or ``2,610 in 2 of 3 runs``.

        Where the median is not known, the median of the runs that reached it stands in its place; the words say so.
        """
        if not self.reached:
            return f"not by {max(self.limits):,.0f}" if self.limits else "not run"
        known = self.middle if self.middle is not None else median(self.reached)
        middle, low, high = (f"{value:,.0f}" for value in (known, min(self.reached), max(self.reached)))
        words = f"{'by ' if self.early else ''}{middle}" + (f" ({low}–{high})" if low != high else "")
        total = len(self.reached) + len(self.limits)
        return f"{words} in {len(self.reached)} of {total} runs" if self.limits else words


def rule_and_memory(records: Records, rule_threshold: float = PRINTED.rule_threshold) -> tuple[Times, Times]:
    """Both clocks of some runs as P1 reads them; rules that are learned by copying do not count as learned (P1 C.7)."""
    read = [printed_clocks(one, rule_threshold) for one in records]
    return Times.of(rule_onset(clocks) for clocks in read), Times.of(clocks.memory for clocks in read)


def rule_onset(clocks: Clocks) -> Onset:
    """τ_rule; where samples became valid as copies, one that was not reached by τ_mem."""
    if not clocks.learned_by_memory:
        return clocks.rule
    return Onset(clocks.memory.upper, float("inf"), "right-censored", definition=clocks.rule.definition)


def draw_times(
    axis: Any, x: float, times: Times, colour: str, marker: str, label: str | None = None, spread: float = 0.12
) -> None:
    """Draw the runs around ``x``, each at its step; those that did not reach the clock as open marks with an arrow."""
    count = len(times.reached) + len(times.limits)
    at = [x + spread * (k - (count - 1) / 2) for k in range(count)]  # so that equal marks are seen apart
    mark = {"color": light(colour), "marker": marker, "linestyle": "none", "markersize": 5.5, "zorder": 3}
    axis.plot(at[: len(times.reached)], times.reached, label=label, **mark)
    for place, limit in zip(at[len(times.reached) :], times.limits, strict=True):
        axis.plot([place], [limit], markerfacecolor=light("paper"), **mark)
        text = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 8, "annotation_clip": False}
        axis.annotate("↑", (place, limit), xytext=(0, 2), color=light(colour), **text)


def seeds_words(records: Iterable[Records]) -> str:
    """The numbers of seeds of several settings, such as ``3 seeds`` or ``1 to 3 seeds``."""
    seeds = sorted({runs.seeds for runs in records})
    return f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seed{'s' if seeds[0] != 1 else ''}"
