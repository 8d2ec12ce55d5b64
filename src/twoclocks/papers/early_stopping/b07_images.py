"""Claim B7 on images: the losses part, and copies begin, in proportion to the number of images (P2 §3.1, Fig. 1)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeVar

from twoclocks.clocks.onset import Onset
from twoclocks.papers.claim import CLAIMS, Claim, Judgement, all_of, not_run
from twoclocks.papers.early_stopping.b07_law import FEWEST, Proportional, proportional
from twoclocks.papers.early_stopping.image_runs import GAP, NaturalRun, image_runs
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import fewest

R = TypeVar("R", bound=NaturalRun)
Clock = Callable[[NaturalRun], Onset | None]


def criterion_of(gap: float) -> str:
    return (
        f"two clocks: losses part (by {gap:g}), and copies begin (a tenth of the samples beyond chance). For each, "
        "over all N, four or more, at which every seed reached it: the 95% interval of the exponent is narrower than "
        "±0.15 and holds 1, or lies within 1 ± 0.15; refuted where one lies outside; undecided where a curve bends so "
        "that an end leaves the tolerance, where at some N a clock was not reached, or where one was reached at fewer "
        "than four N"
    )


class LinearInSamples(Claim):
    """The clocks of the loss gap and of copies over the number of images or texts."""

    id: ClassVar[str] = "B7"
    revised: ClassVar[str] = (
        "an N at which a clock was not reached makes the answer undecided, and copies count by one criterion; before, "
        "such an N was left out. Each clock has a law over the N at which it was reached; before, over those at which "
        "both were. Changed after the runs on digits and of the GPT, and of MD4 with 64 to 256 strings, were seen; "
        "their verdicts are the same"
    )
    what: ClassVar[str]

    @abstractmethod
    def runs(self, records: Records) -> list[NaturalRun]:
        """The runs in order of N."""

    def judge(self, records: Records) -> Judgement:
        runs = self.runs(records)
        laws = {name: law_of(runs, clock) for name, (_, clock) in CLOCKS.items()}
        known = {name: found.law for name, found in laws.items() if found.law is not None}
        if not known:
            there = ", ".join(f"{n:,}" for n in sorted({one.n for one in runs})) or "none"
            return not_run(f"{self.what} at four N to beyond a clock (there: {there})")
        words = "; ".join(f"{CLOCKS[name][0]} {found.words}" for name, found in laws.items())
        answer = all_of([law.answer for law in known.values()])
        # To leave out the N that copy late would make any law look proportional.
        if answer == "yes" and any(found.law is None or found.censored for found in laws.values()):
            answer = "undecided"
        used = {n: same for name in known for n, same in laws[name].sizes.items()}
        seeds = fewest(Records(one.record for one in same).seeds for same in used.values())
        return Judgement.of(answer, words, seeds, {name: law.law.as_json() for name, law in known.items()})


CLOCKS: dict[str, tuple[str, Clock]] = {
    "gap": ("losses part", lambda run: run.gap),
    "copies": ("copies begin", lambda run: run.memory),
}


class ClockLaw(NamedTuple):
    """The law of one clock over N, and the runs behind it."""

    law: Proportional | None  # None: reached at fewer than four N
    sizes: dict[int, list[NaturalRun]]  # the N at which every run reached it
    censored: list[int]  # all other N

    @property
    def words(self) -> str:
        if self.law is None:
            there = ", ".join(f"{n:,}" for n in self.sizes) or "none"
            return f"at too few N for a law (there: {there})"
        missing = f"; not reached by every seed at N = {', '.join(f'{n:,}' for n in self.censored)}"
        return f"at {self.law.words}" + (missing if self.censored else "")


def law_of(runs: list[NaturalRun], clock: Clock) -> ClockLaw:
    """Fit the law of a clock over the N at which every run reached it."""
    sizes = reached_sizes(runs, clock)
    reached = [one for same in sizes.values() for one in same]
    onsets = [onset for one in reached if (onset := clock(one)) is not None]
    law = proportional([one.n for one in reached], onsets) if len(sizes) >= FEWEST else None
    return ClockLaw(law, sizes, sorted({one.n for one in runs} - sizes.keys()))


@CLAIMS.register("B7-images")
class LinearInImages(LinearInSamples):
    """Real digits."""

    title: ClassVar[str] = "τ_mem is proportional to the number of training images"
    paper: ClassVar[str] = "images (CIFAR-10; here digits): τ_mem ∝ P"
    criterion: ClassVar[str] = criterion_of(GAP)
    figures: ClassVar[tuple[str, ...]] = ("p2-fig1",)
    grids: ClassVar[tuple[str, ...]] = ("images-sizes",)
    what: ClassVar[str] = "digits"

    def runs(self, records: Records) -> list[NaturalRun]:
        return [*image_runs(records)]


def seen_sizes(runs: list[R]) -> dict[int, list[R]]:
    """The N at which both clocks of every run were seen."""
    both = [reached_sizes(runs, clock) for _, clock in CLOCKS.values()]
    return {n: same for n, same in both[0].items() if n in both[1]}


def reached_sizes(runs: list[R], clock: Clock) -> dict[int, list[R]]:
    """The N at which every run reached a clock."""
    found: dict[int, list[R]] = {}
    for one in runs:
        found.setdefault(one.n, []).append(one)
    return {n: same for n, same in found.items() if all((at := clock(one)) is not None and at.seen for one in same)}
