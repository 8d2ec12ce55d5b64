"""Claim A6: τ_mem = a·N^α, with α near 1 (P1 Fig. 2G, Fig. 10, Table 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from twoclocks.clocks.law import Law
from twoclocks.core.errors import UserError
from twoclocks.papers.as_printed import printed_clocks, printed_law, seen_sizes, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, all_of, not_run
from twoclocks.papers.intervals import Interval, is_within, range_of
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import Seeds
from twoclocks.papers.two_clocks.parity import (
    Point,
    listed,
    memory_onset,
    points_to_memory,
    seeds_of,
    with_enough_seeds,
)
from twoclocks.papers.two_clocks.printed_fits import PRINTED_FITS, PrintedFit
from twoclocks.papers.two_clocks.runs import DIT, GPT

GROUP = 3
NARROW, NEAR, FACTOR = 0.1, 0.05, 1.5


class MemorizationLaw(Claim):
    """τ_mem over N for one kind of network at G = 3."""

    title: ClassVar[str] = "τ_mem is a power law in the number of training samples"
    criterion: ClassVar[str] = (
        "from τ_mem seen at four N or more: α's 95% interval is narrower than ±0.1 and overlaps the paper's value "
        "±0.05, and at every N at which τ_mem was seen, a·N^α is within a factor of 1.5 of the paper's, with its whole "
        "95% interval; undecided where that interval holds both"
    )
    revised: ClassVar[str] = (
        "τ_mem must be seen at four N, since a run that ended early counted as the fourth; a·N^α is compared with "
        "its interval, since scatter alone decided near the factor of 1.5"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig2", "fig10", "table4")
    preset: ClassVar[str]
    fewest: ClassVar[int] = 2  # the smallest N at which the comparison is fair

    @property
    def printed(self) -> PrintedFit:
        return PRINTED_FITS[self.preset][GROUP]

    def judge(self, records: Records) -> Judgement:
        chosen = law_records(records, self.preset, self.fewest)
        seen = points_to_memory(chosen)
        unseen = {one.n for one in chosen} - {n for _, n in seen}  # where the law has a lower bound only

        def judged(found: Mapping[tuple[int, int], Point]) -> Judgement:
            sizes = unseen | {n for _, n in found}
            return self.judged(chosen.those(lambda one: one.n in sizes), seeds_of(found.values(), memory_onset))

        return with_enough_seeds(seen, judged, memory_onset)

    def judged(self, chosen: Records, seeds: Seeds) -> Judgement:
        sizes, onsets = [one.n for one in chosen], [printed_clocks(one).memory for one in chosen]
        seen = seen_sizes(sizes, onsets)
        try:
            law = printed_law(sizes, onsets)
        except UserError:
            there = f"there: N {listed(seen)}"
            return not_run(f"{self.preset} at G = 3 over at least four N, each beyond τ_mem ({there})")
        low, high = law.alpha_ci
        ratios = [law.predict(n) / self.printed.at(n) for n in seen]
        within = ratios_to_paper(law, self.printed, seen)
        both = range_of(within)
        measured = (
            f"τ_mem = {law.a:.3g}·N^{law.alpha:.2f} (95%: {low:.2f} to {high:.2f}; R² {law.r_squared or math.nan:.2f}; "
            f"{law.points} runs, N {law.sizes[0]:,}–{law.sizes[-1]:,}), {min(ratios):.2f} to {max(ratios):.2f} times "
            f"the paper's (95%: {both.low:.2f} to {both.high:.2f})"
        )
        values = {**law.as_json(), "ratio_to_paper": ratios, "ratio_ci": [one.as_json() for one in within]}
        return Judgement.of(judge_law(law, self.printed, within), measured, seeds, values)


@CLAIMS.register("A6-dit")
class DiTLaw(MemorizationLaw):
    """DiT-mini."""

    id: ClassVar[str] = "A6"
    paper: ClassVar[str] = "DiT-mini, G = 3: τ_mem = 36.2·N^1.15"
    grids: ClassVar[tuple[str, ...]] = ("calibration-memory", "dit-law", "dit-law-seeds")
    preset: ClassVar[str] = DIT


@CLAIMS.register("A6-gpt")
class GPTLaw(MemorizationLaw):
    """GPT-mini; at smaller N its τ_mem runs into τ_rule, and the law bends."""

    id: ClassVar[str] = "A6"
    paper: ClassVar[str] = "GPT-mini, G = 3: τ_mem = 1.1·N^1.02 (compared at N ≥ 512)"
    grids: ClassVar[tuple[str, ...]] = ("gpt-law",)
    preset: ClassVar[str] = GPT
    fewest: ClassVar[int] = 512


def law_records(records: Records, preset: str, fewest: int) -> Records:
    """The runs of a law: the preset's own settings, any N and seed; none that diverged."""
    plain = stable(records.baseline(preset, rule__group=GROUP))
    fewest = 2 if records.scale.networks else fewest  # small networks have small N
    return plain.those(lambda one: one.n >= fewest and one.run.settings.clocks.stop != "rule")


def ratios_to_paper(law: Law, printed: PrintedFit, sizes: Sequence[int]) -> list[Interval]:
    """The 95% intervals of our law, in units of the paper's, at each N."""
    return [Interval(*law.median_interval(n)).scaled(1 / printed.at(n)) for n in sizes]


def judge_law(law: Law, printed: PrintedFit, ratios: Sequence[Interval]) -> Answer:
    """The criterion on a fitted law; ``ratios``: to the paper's, at every N at which τ_mem was seen."""
    low, high = law.alpha_ci
    if not high - low < 2 * NARROW:
        return "undecided"
    overlaps = low <= printed.alpha + NEAR and high >= printed.alpha - NEAR
    return all_of([is_within(one, 1 / FACTOR, FACTOR) for one in ratios]) if overlaps else "no"
