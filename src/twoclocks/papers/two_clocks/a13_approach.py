"""Claim A13: valid and new samples come nearer to the training set before copying begins (P1 §4.1, Fig. 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.dissection.views.approach import ApproachInfo
from twoclocks.papers.claim import CLAIMS, Answer
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Record
from twoclocks.papers.two_clocks.run_by_run import Finding, RunByRun
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of


@dataclass(frozen=True)
class Approach(Finding):
    """Distances to the training set, and when copying begins."""

    info: ApproachInfo
    memory: Onset

    def answers(self) -> dict[str, Answer]:
        """Whether the approach comes before τ_mem; undecided where there are too few valid and new samples."""
        nearer = self.info.onset
        return {"nearer before τ_mem": "undecided" if nearer is None else is_earlier(nearer, self.memory)}

    def words(self) -> str:
        return f"nearer from {self.info.onset}, τ_mem {self.memory} (rule itself: {self.info.chance:.2f} bits)"

    def as_json(self) -> dict[str, Any]:
        return self.info.numbers()


@CLAIMS.register("A13")
class Approaching(RunByRun):
    """DiT-mini at G = 3, against samples of the rule itself."""

    id: ClassVar[str] = "A13"
    title: ClassVar[str] = "Samples approach the training set before τ_mem"
    paper: ClassVar[str] = "valid and new samples move closer to the training set before exact copies appear"
    criterion: ClassVar[str] = (
        "the nearest Hamming distance of valid and new samples is 2% below that of new samples of the rule itself, "
        "with 95% confidence, before the interval of τ_mem begins"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig12",)
    grids: ClassVar[tuple[str, ...]] = ("dissection",)

    preset: ClassVar[str] = DIT
    needed: ClassVar[str] = "distances to the training set, until copying begins"

    def finding(self, record: Record) -> Approach | None:
        return approach_of(record)


def approach_of(record: Record) -> Approach | None:
    """The distances of a run that came to copy; None where they were not measured."""
    info = view_of(record, "approach")
    if not isinstance(info, ApproachInfo) or info.memory is None or not info.memory.seen:
        return None
    return Approach(info, info.memory)
