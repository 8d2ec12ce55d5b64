"""The runs and checkpoints of P1's figures of the dissection: DiT-mini at G = 3, whose checkpoints were kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.window import Clocks
from twoclocks.dissection.view import Info
from twoclocks.papers.as_printed import printed_clocks
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of
from twoclocks.report.drawings.parts import shown_steps

GRIDS = ("dissection",)
GROUP = 3
Phase = Literal["early", "middle", "late"]
PHASES: tuple[Phase, ...] = ("early", "middle", "late")
V = TypeVar("V", bound=Info)
Steps = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Seen(Generic[V]):
    """What a view shows of each seed; the first seed is drawn, at the chosen checkpoints."""

    n: int
    views: tuple[V, ...]
    chosen: tuple[int, ...]

    @property
    def first(self) -> V:
        return self.views[0]

    @property
    def words(self) -> str:
        """The runs, such as ``DiT-mini, G = 3, N = 1,024, 3 seeds; the first is drawn``."""
        seeds = f"{len(self.views)} seeds; the first is drawn" if len(self.views) > 1 else "1 seed"
        return f"DiT-mini, G = {GROUP}, N = {self.n:,}, {seeds}"

    @property
    def spread(self) -> str:
        """What ``over_seeds`` gives, for a sentence; empty for a single seed."""
        return ", median and range over the seeds" if len(self.views) > 1 else ""

    def over_seeds(self, value: Callable[[V], float | None], form: str = ".2f") -> str:
        """A number of every seed as text: median and range; ``unknown`` where no seed has it."""
        found = [number for one in self.views if (number := value(one)) is not None and np.isfinite(number)]
        if not found:
            return "unknown"
        middle, low, high = (format(number, form) for number in (median(found), min(found), max(found)))
        return middle if low == high else f"{middle} ({low} to {high})"


def seen(records: Records, name: str) -> Seen[Any]:
    """A view of the dissected runs, with the checkpoints of four phases; MissingRunsError where none has it."""
    found = view_seeds(dissected(records), name)
    if found is None:
        raise MissingRunsError(
            f"no run of DiT-mini at G = {GROUP} has the view {name!r}; make the runs of grid {GRIDS[0]!r}"
        )
    return found


def view_seeds(runs: Records, name: str) -> Seen[Any] | None:
    """A view of some runs that differ in their seeds; None where none of them has it."""
    views = tuple(view for one in runs if (view := view_of(one, name)) is not None)
    if not views:
        return None
    return Seen(runs[0].n, views, tuple(shown_steps(views[0].steps, views[0].clocks)))


def dissected(records: Records, group: int = GROUP, weights: bool = True) -> Records:
    """The seeds of one setting whose samples, and weights, were kept: copying should have begun, N be large."""
    needed = ("evaluation.keep_samples", *(["evaluation.keep_weights"] if weights else []))
    plain = records.where(preset=DIT, rule__name="parity", rule__group=group)
    kept = plain.having(lambda one: all(one.value(name) for name in needed))
    by_size = [runs.family(()) for runs in kept.by("data.n").values()]
    return max(by_size, key=lambda runs: (any(map(copies, runs)), runs[0].n), default=Records([]))


def copies(one: Record) -> bool:
    return printed_clocks(one).memory.seen


def of_phase(steps: Steps, clocks: Clocks | None, phase: Phase, count: int) -> tuple[int, ...]:
    """Indices of up to ``count`` checkpoints of a phase: up to just after τ_rule, up to τ_mem, and after it.

    Where a clock is not known, or leaves a phase without a checkpoint, the phases are thirds of the run.
    """
    third = len(steps) // 3
    cuts = [third, 2 * third]
    if clocks is not None and clocks.rule.seen and clocks.memory.seen:
        known = [int((steps <= clocks.rule.upper).sum()) + 1, int((steps <= clocks.memory.upper).sum())]
        cuts = known if 0 < known[0] < known[1] < len(steps) else cuts
    first, last = [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], len(steps))][PHASES.index(phase)]
    return evenly(range(first, max(last, first + 1)), count)


def evenly(indices: Sequence[int], count: int) -> tuple[int, ...]:
    """At most so many of the indices, evenly spaced, with the first and the last.

    >>> evenly(range(9), 3)
    (0, 4, 8)
    """
    places = np.linspace(0, len(indices) - 1, min(count, len(indices))).round().astype(int)
    return tuple(indices[place] for place in places)
