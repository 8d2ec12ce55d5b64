"""Claim A13: valid and new samples come nearer to the training set before copying begins (P1 §4.1, Fig. 12)."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.dissection.views.approach import ApproachInfo
from twoclocks.papers.as_printed import stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, not_run, verdict_of
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of


@CLAIMS.register("A13")
class Approaching(Claim):
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

    def judge(self, records: Records) -> Judgement:
        chosen = stable(records.baseline(DIT, rule__group=3))
        found = {one: info for one in chosen if (info := approach_of(one)) is not None}
        if not found:
            return not_run("p1-dit-mini at G = 3 with distances to the training set, until copying begins")
        words = [
            f"seed {one.seed}, N {one.n:,}: nearer from {info.onset}, τ_mem {info.memory} "
            f"(rule itself: {info.chance:.2f} bits)"
            for one, info in found.items()
        ]
        seeds = Records(found).seeds
        values = {f"seed {one.seed}, N {one.n}": info.numbers() for one, info in found.items()}
        answer = agreed(judge_approach(info) for info in found.values())
        return Judgement(verdict_of(answer, seeds), "; ".join(words), seeds, values)


def approach_of(record: Record) -> ApproachInfo | None:
    """The distances of a run that came to copy; None where they were not measured."""
    info = view_of(record, "approach")
    return info if isinstance(info, ApproachInfo) and info.memory is not None and info.memory.seen else None


def judge_approach(info: ApproachInfo) -> Answer:
    """Whether the approach comes before τ_mem; undecided where there are too few valid and new samples."""
    return "undecided" if info.onset is None or info.memory is None else is_earlier(info.onset, info.memory)
