"""Claim A20: runs agree across seeds, away from the frontier of what is learned (P1 C.8, Fig. 28)."""

from __future__ import annotations

import math
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
from twoclocks.papers.two_clocks.runs import DIT, GPT

FACTOR = 2.0  # of the onsets of different seeds, and of the two clocks away from the frontier
CLOCKS: dict[str, Clock] = {"τ_rule": rule_onset, "τ_mem": memory_onset}
NEVER = 9  # P1: the smallest group that is never learned


class AgreementOfSeeds(Claim):
    """Every group size and N with at least three seeds.

    The frontier is where the two clocks meet: which comes first is then a matter of chance. It is found by medians,
    so that one seed that disagrees cannot move its own setting to the frontier.
    """

    id: ClassVar[str] = "A20"
    title: ClassVar[str] = "runs agree across seeds away from the frontier"
    criterion: ClassVar[str] = (
        "at every G and N with at least three seeds, each clock's latest onset is less than twice its earliest; left "
        "out is the frontier, where the medians of τ_rule and τ_mem lie within a factor of 2; both clocks must be there"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig28",)
    preset: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        chosen = records.baseline(self.preset)
        clocks = {"τ_rule": points_to_rule(chosen), "τ_mem": points_to_memory(chosen)}
        answers: list[Answer] = []
        words, used, values = [], list[Seeds](), dict[str, Any]()
        for name, found in clocks.items():
            said: list[Answer] = []
            for point in found.values():
                spread, repeated = spread_over_seeds(name, point), point.seeds_to(CLOCKS[name])
                if repeated < ENOUGH_SEEDS or spread is None:
                    continue
                frontier = at_frontier(point, clocks["τ_mem"])
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


def at_frontier(point: Point, memory: Points) -> bool:
    """Whether the medians of both clocks lie within a factor of two, or may do so.

    Where no run of a point went on to τ_mem, it is at least that of fewer samples.
    """
    if math.isinf(point.rule.high):  # not learned before copying: only for hard rules is the frontier known to be far
        return point.group < NEVER
    earliest = max(
        (one.memory.low for (group, n), one in memory.items() if group == point.group and n <= point.n),
        default=point.memory.low,
    )
    return max(earliest, point.memory.low) < FACTOR * point.rule.high
