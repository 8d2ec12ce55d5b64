"""Claim B7 on images: the losses part, and copies begin, in proportion to the number of images (P2 §3.1, Fig. 1)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeVar

from twoclocks.papers.claim import CLAIMS, Claim, Judgement, all_of, not_run
from twoclocks.papers.early_stopping.b07_law import FEWEST, proportional
from twoclocks.papers.early_stopping.image_runs import GAP, NaturalRun, image_runs
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import fewest

R = TypeVar("R", bound=NaturalRun)


def criterion_of(gap: float) -> str:
    return (
        f"over all N, four or more, at which every seed's losses parted (by {gap:g}) and every seed began to copy (a "
        "tenth of the samples beyond chance): the 95% interval of both exponents is narrower than ±0.15 and holds 1, "
        "or lies within 1 ± 0.15; refuted where one lies outside; undecided where a curve bends so that an end leaves "
        "the tolerance, or where at some N a clock was not reached"
    )


class LinearInSamples(Claim):
    """The clocks of the loss gap and of copies over the number of images or texts."""

    id: ClassVar[str] = "B7"
    revised: ClassVar[str] = (
        "an N at which a clock was not reached makes the answer undecided, and copies count by one criterion; before, "
        "such an N was left out. Changed after the runs on digits and of the GPT were seen; their verdicts are the same"
    )
    what: ClassVar[str]

    @abstractmethod
    def runs(self, records: Records) -> list[NaturalRun]:
        """The runs in order of N."""

    def judge(self, records: Records) -> Judgement:
        found = self.runs(records)
        sizes = seen_sizes(found)
        censored = sorted({one.n for one in found} - sizes.keys())
        runs = [one for same in sizes.values() for one in same]
        laws = {}
        if len(sizes) >= FEWEST:
            n = [one.n for one in runs]
            laws["gap"] = proportional(n, [one.gap for one in runs if one.gap is not None])
            laws["copies"] = proportional(n, [one.memory for one in runs])
        known = {name: law for name, law in laws.items() if law is not None}
        if len(known) < 2:
            there = ", ".join(f"{n:,}" for n in sizes) or "none"
            return not_run(f"{self.what} at four N to beyond both clocks (there: {there})")
        words = f"losses part at {known['gap'].words}; copies begin at {known['copies'].words}"
        answer = all_of([law.answer for law in known.values()])
        if censored:  # to leave out the N that copy late would make any law look proportional
            words += f"; not reached by every seed at N = {', '.join(f'{n:,}' for n in censored)}"
            answer = "undecided" if answer == "yes" else answer
        seeds = fewest(Records(one.record for one in same).seeds for same in sizes.values())
        return Judgement.of(answer, words, seeds, {name: law.law.as_json() for name, law in known.items()})


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
    found: dict[int, list[R]] = {}
    for one in runs:
        found.setdefault(one.n, []).append(one)
    return {n: same for n, same in found.items() if all(one.memory.seen and one.gap and one.gap.seen for one in same)}
