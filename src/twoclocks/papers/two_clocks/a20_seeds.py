"""Claim A20: runs agree across seeds, away from the frontier of what is learned (P1 C.8, Fig. 28)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.papers.claim import CLAIMS, ENOUGH_SEEDS, Answer, Claim, Judgement, all_of, not_run, verdict_of
from twoclocks.papers.intervals import Interval, interval_of, is_within, spread_of
from twoclocks.papers.records import Records
from twoclocks.papers.seeds import Seeds, fewest
from twoclocks.papers.two_clocks.parity import (
    Clock,
    Point,
    Points,
    informative,
    memory_onset,
    points_to_memory,
    points_to_rule,
    rule_onset,
)
from twoclocks.papers.two_clocks.printed_fits import PRINTED_FITS, PrintedFit
from twoclocks.papers.two_clocks.runs import DIT, GPT

FACTOR = 2.0  # of the onsets of different seeds, and of the two clocks away from the frontier
CLOCKS: dict[str, Clock] = {"τ_rule": rule_onset, "τ_mem": memory_onset}
NEVER = 9  # P1: the smallest group that is never learned


class AgreementOfSeeds(Claim):
    """Every group size and N with at least three seeds.

    The frontier is where the two clocks meet: which comes first is then a matter of chance. It belongs to a G and N,
    and is found by medians, so that one seed that disagrees cannot move its own setting to the frontier.
    """

    id: ClassVar[str] = "A20"
    title: ClassVar[str] = "runs agree across seeds away from the frontier"
    criterion: ClassVar[str] = (
        "at every G and N with at least three seeds, each clock's latest onset is less than twice its earliest; left "
        "out is the frontier, where the medians of τ_rule and τ_mem lie, or may lie, within a factor of 2 (τ_mem by "
        "P1's law where no run of this G and N copied); both clocks must be there"
    )
    revised: ClassVar[str] = (
        "the frontier is that of τ_mem at the same G and N, or of the printed law; before, the end of a run counted "
        "as copying, and seeds that differ tenfold were left out"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig28",)
    preset: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        chosen = records.baseline(self.preset)
        clocks = {"τ_rule": points_to_rule(chosen), "τ_mem": points_to_memory(chosen)}
        laws = {} if records.scale.networks else PRINTED_FITS[self.preset]  # other networks have other laws
        answers: list[Answer] = []
        words, used, values = [], list[Seeds](), dict[str, Any]()
        for name, found in clocks.items():
            said: list[Answer] = []
            for point in found.values():
                spread, repeated = spread_over_seeds(name, point), point.seeds_to(CLOCKS[name])
                if repeated < ENOUGH_SEEDS or spread is None:
                    continue
                frontier = may_be_near(rule_at(point, clocks["τ_rule"]), memory_at(point, clocks["τ_mem"], laws))
                words.append(f"{name} at {point}: {spread.times()} of {repeated}{' (frontier)' if frontier else ''}")
                values[f"{name}, {point}"] = {"spread": spread.as_json(), "seeds": int(repeated), "frontier": frontier}
                if not frontier:
                    said.append(is_within(spread, 0, FACTOR))
                    used.append(repeated)
            answers.append(all_of(said))  # undecided where a clock was not repeated away from the frontier
        if not words:
            return not_run(f"{self.preset} with at least three seeds at some G and N")
        seeds = fewest(used)
        measured = f"largest to smallest onset: {'; '.join(words)}"
        return Judgement(verdict_of(all_of(answers), seeds), measured, seeds, values)


@CLAIMS.register("A20-dit")
class DiTSeeds(AgreementOfSeeds):
    """DiT-mini."""

    paper: ClassVar[str] = "DiT-mini: repeated runs have consistent trajectories"
    grids: ClassVar[tuple[str, ...]] = ("dit-rule", "dit-law", "dit-law-seeds")
    preset: ClassVar[str] = DIT


@CLAIMS.register("A20-gpt")
class GPTSeeds(AgreementOfSeeds):
    """GPT-mini."""

    paper: ClassVar[str] = "GPT-mini: repeated runs have consistent trajectories"
    grids: ClassVar[tuple[str, ...]] = ("gpt-law",)
    preset: ClassVar[str] = GPT


def spread_over_seeds(clock: str, point: Point) -> Interval | None:
    """The ratio of the latest to the earliest onset; None where no seed reached it."""
    onsets = [CLOCKS[clock](one) for one in informative(point.readings, CLOCKS[clock])]
    if not any(one.seen for one in onsets):
        return None
    return spread_of([interval_of(one) for one in onsets])


def rule_at(point: Point, found: Points) -> Interval:
    """The median τ_rule at a G and N; where copying came first, it is later, and than at other N too."""
    rule = found.get((point.group, point.n), point).rule
    if math.isfinite(rule.high):
        return rule
    if point.group >= NEVER:
        return Interval(math.inf, math.inf)
    seen = [one.rule.low for one in found.values() if one.group == point.group and math.isfinite(one.rule.high)]
    return rule.at_least(min(seen, default=0.0))


def memory_at(point: Point, found: Points, laws: Mapping[int | None, PrintedFit]) -> Interval:
    """The median τ_mem at a G and N where a run copied, else that of P1's law.

    The end of a run without copies is no τ_mem but a lower bound, as is τ_mem of fewer samples.
    """
    same = found.get((point.group, point.n))
    if same is not None and any(one.memory.seen for one in same.readings):
        return same.memory
    fewer = [one.memory.low for one in found.values() if one.group == point.group and one.n < point.n]
    bound = max([*fewer, *(one.memory.lower for one in point.readings)])
    law = laws.get(point.group)
    return Interval(bound, math.inf) if law is None else Interval(law.at(point.n), law.at(point.n)).at_least(bound)


def may_be_near(rule: Interval, memory: Interval) -> bool:
    """Whether both clocks lie within a factor of two, or may do so.

    >>> near, far, unknown = Interval(900, 1000), Interval(2000, 2100), Interval(1500, math.inf)
    >>> [may_be_near(near, one) for one in (near, far, unknown)], may_be_near(far, near)
    ([True, False, True], False)
    """
    return memory.low < FACTOR * rule.high and rule.low < FACTOR * memory.high
