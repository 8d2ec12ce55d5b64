"""Claim A16: GPT learns the last bit of each group first; memory splits late positions (P1 §5.1, C.5, Figs. 4 and 20).

From which position on memory can split the losses depends on N: a prefix that many training rows share says nothing
about what follows. So positions are compared with the exact loss of a perfect memory of the same training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset
from twoclocks.dissection.views.positions import PositionsInfo
from twoclocks.papers.claim import CLAIMS, Answer, all_of
from twoclocks.papers.intervals import Interval, interval_of, is_below
from twoclocks.papers.records import Record
from twoclocks.papers.two_clocks.run_by_run import Finding, RunByRun
from twoclocks.papers.two_clocks.runs import GPT
from twoclocks.papers.views import view_of

SPLIT = 0.05  # nats between held-out and training loss that count as a split, as in the view
# Where a perfect memory is better than the rule by so many nats, a position must split: when copying begins, memory is
# far from perfect, so it must be worth more than a split. Below WORTHLESS it must not split; in between it may.
WORTH, WORTHLESS = 4 * SPLIT, SPLIT / 4
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Order(Finding):
    """Which positions fall with the rule and split with memory, and which should."""

    last_end: Onset  # when the last of the groups' last bits is half learned
    first_split: Interval  # when training and held-out loss first split at any position
    late: Places  # where a perfect memory is better than the rule
    early: Places  # where it is not
    splits: tuple[Onset, ...]  # when training and held-out loss split, at every position
    begun: float  # the step at which copying has begun

    def answers(self) -> dict[str, Answer]:
        late, early = ([self.has_split(k) for k in places] for places in (self.late, self.early))
        return {
            "last bits of groups first": is_below(interval_of(self.last_end), self.first_split),
            "all late positions split": all_of(late),
            "no early position splits": "no" if "yes" in early else "undecided" if "undecided" in early else "yes",
        }

    def has_split(self, position: int) -> Answer:
        """Whether a position has split when copying begins; undecided where the noise of its losses allows both."""
        found = self.splits[position]
        return "yes" if found.upper <= self.begun else "no" if found.lower >= self.begun else "undecided"

    def count(self, places: Places) -> str:
        """Such as ``13 (2 undecided) of 15``."""
        found = [self.has_split(k) for k in places]
        unclear = f" ({found.count('undecided')} undecided)" if "undecided" in found else ""
        return f"{found.count('yes')}{unclear} of {len(places)}"

    def words(self) -> str:
        return (
            f"last bits learned {self.last_end}, first split {self.first_split}; split at τ_mem: "
            f"{self.count(self.late)} positions where memory is worth {WORTH:g} nats (from position "
            f"{self.late.min(initial=10**9) + 1} on), {self.count(self.early)} where it is worth nothing"
        )


@CLAIMS.register("A16")
class LastBitsFirst(RunByRun):
    """GPT-mini at G = 3: next-token losses by position."""

    id: ClassVar[str] = "A16"
    title: ClassVar[str] = "GPT: the last bit of a group falls first; memory splits late positions"
    paper: ClassVar[str] = (
        "at τ_rule the loss falls at the last bit of each group; at τ_mem training and held-out loss split at all "
        "positions past a certain one"
    )
    criterion: ClassVar[str] = (
        "all last bits of groups are half learned before any other position splits; when copying begins, every other "
        "position has split (by 0.05 nats) at which a perfect memory of the same training set is better than the rule "
        "by at least four times that, and none at which it is better by less than a quarter of it; undecided where the "
        "noise of a position's losses allows both"
    )
    revised: ClassVar[str] = (
        "noise that hides a split no longer refutes; a split is asked for from 0.2 nats of perfect memory on, not "
        "from 0.05, which only a perfect memory can show; the first split has the interval of all positions"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig4", "fig20")
    grids: ClassVar[tuple[str, ...]] = ("dissection-gpt",)

    preset: ClassVar[str] = GPT
    needed: ClassVar[str] = "losses by position, until copying begins"

    def finding(self, record: Record) -> Order | None:
        return order_of(record)


def order_of(record: Record) -> Order | None:
    """The order of the positions of a run that came to copy; None where they were not measured."""
    info = view_of(record, "positions")
    if not isinstance(info, PositionsInfo) or info.clocks is None or not info.clocks.memory.seen:
        return None
    ends = [one for one in info.rule_onsets if one is not None]
    worth = info.rule_floor - info.memory_floor
    # What the rule determines is known without memory; whether it splits is not what the paper speaks of.
    free = np.setdiff1d(np.arange(len(worth)), info.determined)
    if not ends or not np.isfinite(worth).all() or not (worth[free] >= WORTH).any():
        return None
    return Order(
        last_end=max(ends, key=lambda one: (one.upper, one.lower)),
        first_split=first_of([info.memory_onsets[k] for k in free]),
        late=free[worth[free] >= WORTH],
        early=free[worth[free] < WORTHLESS],
        splits=info.memory_onsets,
        begun=info.clocks.memory.upper,
    )


def first_of(onsets: Sequence[Onset]) -> Interval:
    """The first of several onsets: each may have come at its lower end, and one had come at the smallest upper end."""
    return Interval(min(one.lower for one in onsets), min(one.upper for one in onsets))
