"""The printed clocks of runs on parity, of all seeds, by group size and N."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.papers.as_printed import diverged, printed_clocks
from twoclocks.papers.claim import ENOUGH_SEEDS, Judgement
from twoclocks.papers.intervals import Interval, interval_of, median_of
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import Scale
from twoclocks.papers.seeds import Seeds, fewest

K = TypeVar("K")
PAPER_N = 4096
RANGE = 8  # of the largest N to the smallest, over which claims compare


@dataclass(frozen=True)
class Reading:
    """A run and its clocks as P1 reads them."""

    record: Record

    @cached_property
    def clocks(self) -> Clocks:
        return printed_clocks(self.record)

    @cached_property
    def rule(self) -> Onset:
        """τ_rule; where copying came first, the rule was not learned by then (P1 C.7 discards later onsets)."""
        clocks = self.clocks
        if clocks.learned_by_memory:
            return Onset(clocks.memory.lower, math.inf, "right-censored")
        return clocks.rule

    @property
    def memory(self) -> Onset:
        return self.clocks.memory


Clock = Callable[[Reading], Onset]


@dataclass(frozen=True)
class Point:
    """All seeds of one group size and N.

    A run that ended before the first onset of its point was seen, as planned, does not enter the median.
    """

    group: int
    n: int
    readings: tuple[Reading, ...]

    def seeds_to(self, *clocks: Clock) -> Seeds:
        """The seeds that say something about each of these clocks."""
        return fewest(Records(one.record for one in informative(self.readings, clock)).seeds for clock in clocks)

    @property
    def rule(self) -> Interval:
        """The median τ_rule over seeds."""
        return median_of([interval_of(one.rule) for one in informative(self.readings, rule_onset)])

    @property
    def memory(self) -> Interval:
        """The median τ_mem over seeds."""
        return median_of([interval_of(one.memory) for one in informative(self.readings, memory_onset)])

    @property
    def verdicts(self) -> set[str]:
        """The verdicts on the window, which may differ between seeds."""
        return {one.clocks.verdict for one in self.readings}

    def __str__(self) -> str:
        return f"G={self.group}, N={self.n:,}"


def rule_onset(one: Reading) -> Onset:
    return one.rule


def memory_onset(one: Reading) -> Onset:
    return one.memory


def informative(readings: Sequence[Reading], clock: Clock) -> Sequence[Reading]:
    """Runs whose onset was seen, or which went on after the first that was seen; all of them where none was."""
    first = min(clock(one).upper for one in readings)
    return [one for one in readings if clock(one).seen or clock(one).lower >= first] or readings


Points = dict[tuple[int, int], Point]


def read(records: Iterable[Record]) -> list[Reading]:
    """The clocks of all runs that did not diverge."""
    return [Reading(one) for one in records if not diverged(one)]


def points(records: Iterable[Record]) -> Points:
    """Runs by group size and N, in this order; none that diverged."""
    readings = read(records)
    keys = sorted({(int(one.record.value("rule.group")), one.record.n) for one in readings})
    return {
        key: Point(*key, tuple(one for one in readings if (one.record.value("rule.group"), one.record.n) == key))
        for key in keys
    }


def points_by_data(records: Records) -> dict[tuple[int, int, int], Point]:
    """Runs by group size, N and seed of the data: what is trained on the same samples."""
    return {
        (*key, seed): point for seed, runs in records.by("data.seed").items() for key, point in points(runs).items()
    }


def points_to_memory(records: Records) -> Points:
    """Points whose runs say something about τ_mem: it was seen, or the run went on after it was seen at the same N.

    A run that was planned to end before any run of its N began to copy is no evidence for a late onset.
    """
    return chosen_points(records, memory_onset, lambda one: one.record.n)


def points_to_rule(records: Records) -> Points:
    """Points whose runs say something about τ_rule: it was seen, or the run went on after it was seen at the same G."""
    return chosen_points(records, rule_onset, lambda one: int(one.record.value("rule.group")))


def chosen_points(records: Records, onset: Clock, axis: Callable[[Reading], int]) -> Points:
    """Points without the runs that ended before the first onset of their group was seen."""
    readings = read(records)
    first: dict[int, float] = {}
    for one in readings:
        first[axis(one)] = min(first.get(axis(one), math.inf), onset(one).upper)
    return points(one.record for one in readings if onset(one).seen or onset(one).lower >= first[axis(one)])


def eightfold(found: list[Point]) -> list[list[Point]]:
    """All ranges from an N to one that is eight times as large, up to a tenth."""
    ordered = sorted(found, key=lambda one: one.n)
    ranges = []
    for start in ordered:
        end = next((one.n for one in ordered if abs(one.n / (RANGE * start.n) - 1) < 0.1), None)
        if end is not None:
            ranges.append([one for one in ordered if start.n <= one.n <= end])
    return ranges


def seeds_of(found: Iterable[Point], *clocks: Clock) -> Seeds:
    """The seeds that every point has, without runs that ended before these clocks could be read."""
    return fewest(one.seeds_to(*clocks) for one in found)


def with_enough_seeds(
    found: Mapping[K, Point], judged: Callable[[Mapping[K, Point]], Judgement], *clocks: Clock
) -> Judgement:
    """The judgement of the points with three seeds, where these decide; what all points say is told beside it.

    So one more point with a single seed, which agrees or says nothing, cannot take a verdict away. Where all points
    together say the contrary, nothing is decided: the points with three seeds are not all that the claim is about.
    """
    every = judged(found)
    repeated = judged({key: one for key, one in found.items() if one.seeds_to(*clocks) >= ENOUGH_SEEDS})
    if every.seeds >= ENOUGH_SEEDS or repeated.verdict not in ("reproduced", "refuted"):
        return every
    values = {**repeated.values, "with_fewer_seeds": every.values}
    if {repeated.answer, every.answer} == {"yes", "no"}:
        measured = f"three seeds: {repeated.measured}; the contrary with fewer seeds too: {every.measured}"
        return Judgement.of("undecided", measured, every.seeds, values)
    measured = f"{repeated.measured}; with fewer seeds too, not judged: {every.measured}"
    return replace(repeated, measured=measured, values=values)


def at_papers_n(found: Judgement, n: int, scale: Scale) -> Judgement:
    """The judgement of a claim about the paper's N; runs at another N do not decide it.

    Scales with networks of their own have sizes of their own, too.
    """
    if n == PAPER_N or scale.networks or found.verdict == "not run":
        return found
    measured = f"{found.measured}; undecided at N = {n:,}: the claim is about N = {PAPER_N:,}"
    return replace(found, verdict="undecided", measured=measured)


def listed(numbers: Iterable[int]) -> str:
    """Numbers in a sentence, such as ``512, 1,024``; ``none`` if there are none."""
    return ", ".join(f"{one:,}" for one in sorted(set(numbers))) or "none"
