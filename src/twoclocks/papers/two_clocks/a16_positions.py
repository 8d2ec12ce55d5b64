"""Claim A16: GPT learns the last bit of each group first; memory splits late positions (P1 §5.1, C.5, Figs. 4 and 20).

From which position on memory can split the losses depends on N: a prefix that many training rows share says nothing
about what follows. So positions are compared with the exact loss of a perfect memory of the same training set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset
from twoclocks.dissection.views.positions import PositionsInfo
from twoclocks.papers.claim import CLAIMS, Answer
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Record
from twoclocks.papers.two_clocks.run_by_run import Finding, RunByRun
from twoclocks.papers.two_clocks.runs import GPT
from twoclocks.papers.views import view_of

WORTH = 0.05  # nats by which a perfect memory is better than the rule: such positions must split
WORTHLESS = WORTH / 4  # below it, they must not; in between they may
Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Order(Finding):
    """Which positions fall with the rule and split with memory, and which should."""

    last_end: Onset  # when the last of the groups' last bits is half learned
    first_split: Onset | None  # when training and held-out loss first split at any position; None: at none
    late: Places  # where a perfect memory is better than the rule
    early: Places  # where it is not
    split: Places  # positions that are split when copying begins

    def answers(self) -> dict[str, Answer]:
        missed, wrong = (np.setdiff1d(self.late, self.split), np.intersect1d(self.early, self.split))
        ends: Answer = "undecided" if self.first_split is None else is_earlier(self.last_end, self.first_split)
        return {
            "last bits of groups first": ends,
            "all late positions split": "yes" if not len(missed) else "no",
            "no early position splits": "yes" if not len(wrong) else "no",
        }

    def words(self) -> str:
        wrong = np.intersect1d(self.early, self.split)
        return (
            f"last bits learned {self.last_end}, first split {self.first_split or 'none'}; split at τ_mem: "
            f"{len(np.intersect1d(self.late, self.split))} of the {len(self.late)} positions where memory is worth "
            f"{WORTH:g} nats (from position {self.late.min(initial=10**9) + 1} on), {len(wrong)} of the "
            f"{len(self.early)} where it is worth nothing"
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
        "position has split at which a perfect memory of the same training set is better than the rule by 0.05 nats, "
        "and none at which it is better by less than a quarter of that"
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
    if not ends or not np.isfinite(worth).all() or not (worth[free] > WORTH).any():
        return None
    splits = {int(k): info.memory_onsets[k] for k in free if info.memory_onsets[k].seen}
    begun = info.clocks.memory.upper
    return Order(
        last_end=max(ends, key=lambda one: (one.upper, one.lower)),
        first_split=min(splits.values(), key=lambda one: (one.upper, one.lower), default=None),
        late=free[worth[free] > WORTH],
        early=free[worth[free] < WORTHLESS],
        split=np.array([k for k, one in splits.items() if one.upper <= begun], dtype=np.intp),
    )
