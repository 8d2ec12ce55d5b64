"""Claims on which every run has an answer of its own, from a view of its checkpoints; seeds and N must agree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.papers.as_printed import stable
from twoclocks.papers.claim import Answer, Claim, Judgement, agreed, all_of, not_run, verdict_of
from twoclocks.papers.records import Record, Records

GROUP = 3


class Finding(ABC):
    """What one run says about a claim."""

    @abstractmethod
    def answers(self) -> Mapping[str, Answer]:
        """One answer per part of the claim; all of them must be yes."""

    @abstractmethod
    def words(self) -> str:
        """The numbers in words."""

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {**self.answers()}


class RunByRun(Claim):
    """Runs of one network at G = 3; a base class."""

    preset: ClassVar[str]
    needed: ClassVar[str]  # what a run must have besides, in words

    @abstractmethod
    def finding(self, record: Record) -> Finding | None:
        """What a run says; None where it was not measured, or the run ended too early."""

    def judge(self, records: Records) -> Judgement:
        chosen = stable(records.baseline(self.preset, rule__group=GROUP))
        found = {run: one for run in chosen if (one := self.finding(run)) is not None}
        if not found:
            return not_run(f"{self.preset} at G = {GROUP} with {self.needed}")
        answer = agreed(all_of([*one.answers().values()]) for one in found.values())
        seeds = Records(found).seeds_at_one_n
        words = "; ".join(f"{run.seed_words}, N {run.n:,}: {one.words()}" for run, one in found.items())
        values = {f"{run.seed_words}, N {run.n}": one.as_json() for run, one in found.items()}
        return Judgement(verdict_of(answer, seeds), words, seeds, values)
