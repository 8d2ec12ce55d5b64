"""What a claim of a paper is: the runs that can decide it, and the criterion by which they do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from twoclocks.core.registry import Registry
from twoclocks.papers.grids import grid_named
from twoclocks.papers.records import Records
from twoclocks.papers.scales import Scale
from twoclocks.papers.seeds import NO_SEEDS, Seeds
from twoclocks.sweeps.grid import Cell

Verdict = Literal["reproduced", "seen once", "refuted", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Answer = Literal["yes", "no", "undecided"]
ENOUGH_SEEDS = 3  # for "reproduced" and for "refuted"


@dataclass(frozen=True)
class Judgement:
    """What the runs say about a claim."""

    verdict: Verdict
    measured: str  # the numbers, with intervals, for the table of claims
    seeds: Seeds = NO_SEEDS
    values: dict[str, Any] = field(default_factory=dict)  # the same numbers for programs
    answer: Answer | None = None  # what the numbers say, however few the seeds; None: nothing, or not told

    @classmethod
    def of(cls, answer: Answer, measured: str, seeds: Seeds, values: dict[str, Any]) -> Judgement:
        """The judgement that an answer from so many seeds is."""
        return cls(verdict_of(answer, seeds), measured, seeds, values, answer)


class Claim(ABC):
    """A claim of a paper; register a subclass in a file of its own, and it appears in the table of claims."""

    id: ClassVar[str]  # such as A6
    title: ClassVar[str]
    paper: ClassVar[str]  # what the paper says, with its numbers
    criterion: ClassVar[str]  # what counts as reproduced, in words; to be written before the runs
    revised: ClassVar[str] = ""  # one sentence: what was changed in it after runs existed, and why
    figures: ClassVar[tuple[str, ...]] = ()  # figures and tables that show it
    grids: ClassVar[tuple[str, ...]]  # the runs that it needs

    def cells(self, scale: Scale) -> list[Cell]:
        """The runs that it needs, each once."""
        return cells_of(self.grids, scale)

    @abstractmethod
    def judge(self, records: Records) -> Judgement:
        """The criterion on whatever runs there are, also on none."""


CLAIMS: Registry[Claim] = Registry("claim", Claim)


def cells_of(names: Sequence[str], scale: Scale) -> list[Cell]:
    """The runs of several grids, each once, in their order."""
    return list({cell.key: cell for name in names for cell in grid_named(name).cells(scale)}.values())


def verdict_of(answer: Answer | None, seeds: int) -> Verdict:
    """The verdict for an answer from so many seeds; one or two seeds neither reproduce nor refute.

    >>> verdict_of("yes", 3), verdict_of("yes", 1), verdict_of("no", 3), verdict_of("no", 1), verdict_of(None, 0)
    ('reproduced', 'seen once', 'refuted', 'undecided', 'not run')
    """
    if answer is None:
        return "not run"
    if answer == "undecided":
        return "undecided"
    if seeds >= ENOUGH_SEEDS:
        return "reproduced" if answer == "yes" else "refuted"
    return "seen once" if answer == "yes" else "undecided"


def all_of(answers: Sequence[Answer]) -> Answer:
    """The answer to "do all hold?": one no decides; otherwise one undecided leaves it open."""
    return "no" if "no" in answers else "undecided" if "undecided" in answers or not answers else "yes"


def agreed(answers: Iterable[Answer]) -> Answer:
    """What several seeds say together: undecided unless all say the same.

    >>> agreed(["yes", "yes"]), agreed(["yes", "no"]), agreed([])
    ('yes', 'undecided', 'undecided')
    """
    found = set(answers)
    return found.pop() if len(found) == 1 else "undecided"


def not_run(what: str) -> Judgement:
    """The judgement where the runs are missing; ``what`` names them."""
    return Judgement("not run", f"not run yet: {what}")
