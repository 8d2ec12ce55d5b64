"""Claim A7: τ_mem does not depend on the rule (P1 §3, Fig. 2C, 2F, 4B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, all_of, not_run
from twoclocks.papers.intervals import is_within, spread_of
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import (
    Point,
    listed,
    memory_onset,
    points_to_memory,
    seeds_of,
    with_enough_seeds,
)
from twoclocks.papers.two_clocks.runs import DIT, GPT, GROUPS

FACTOR = 2.0


class MemoryByGroup(Claim):
    """Median τ_mem over seeds of all group sizes, at each N."""

    id: ClassVar[str] = "A7"
    title: ClassVar[str] = "τ_mem does not depend on the rule"
    criterion: ClassVar[str] = (
        "at every N the median τ_mem differs by less than a factor of 2 over G = 2, 3, 4, 6, 9, 12, 18, 36; N at which "
        "not all G were run can only refute it"
    )
    preset: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        return with_enough_seeds(points_to_memory(records.baseline(self.preset)), self.judged, memory_onset)

    def judged(self, found: Mapping[tuple[int, int], Point]) -> Judgement:
        answers: list[Answer] = []
        words, used, values = [], [], dict[str, Any]()
        for n in sorted({n for _, n in found}):
            here = {group: one for (group, size), one in found.items() if size == n}
            if len(here) < 2:
                continue
            spread = spread_of([one.memory for one in here.values()])
            answer = is_within(spread, 0, FACTOR)
            missing = set(GROUPS) - set(here)
            if missing and answer != "no":
                words.append(f"N = {n:,}: {spread.times()} without G = {listed(missing)}")
                continue
            answers.append(answer)
            used += list(here.values())
            words.append(f"N = {n:,}: {spread.times()}")
            values[str(n)] = {str(group): one.memory.as_json() for group, one in here.items()}
        if not words:
            return not_run(f"{self.preset} at one N over all G, each beyond τ_mem")
        seeds = seeds_of(used, memory_onset)
        return Judgement.of(all_of(answers), f"spread over G: {'; '.join(words)}", seeds, values)


@CLAIMS.register("A7-dit")
class DiTMemoryByGroup(MemoryByGroup):
    """DiT-mini."""

    paper: ClassVar[str] = (
        "DiT-mini: copying begins after a similar number of steps, whether the rule is learned or not"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig2", "fig10")
    grids: ClassVar[tuple[str, ...]] = ("dit-groups",)
    preset: ClassVar[str] = DIT


@CLAIMS.register("A7-gpt")
class GPTMemoryByGroup(MemoryByGroup):
    """GPT-mini."""

    paper: ClassVar[str] = "GPT-mini: τ_mem is relatively consistent across G"
    figures: ClassVar[tuple[str, ...]] = ("fig4", "fig10")
    grids: ClassVar[tuple[str, ...]] = ("gpt-groups",)
    preset: ClassVar[str] = GPT
