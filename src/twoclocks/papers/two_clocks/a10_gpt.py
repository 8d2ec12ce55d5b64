"""Claim A10: GPT has the same two clocks, with shorter windows and a sharper onset of memory (P1 §5.1, Fig. 4A, 4B)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from twoclocks.papers.as_printed import printed_clocks
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, all_of, not_run
from twoclocks.papers.intervals import Interval, interval_of, is_below, median_of
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import (
    Point,
    Reading,
    informative,
    memory_onset,
    points_by_data,
    seeds_of,
    with_enough_seeds,
)
from twoclocks.papers.two_clocks.runs import DIT, GPT

HALF = 0.5  # of the samples are copies, above chance


@CLAIMS.register("A10")
class ShorterAndSharper(Claim):
    """GPT-mini against DiT-mini, wherever both were trained on the same data."""

    id: ClassVar[str] = "A10"
    title: ClassVar[str] = "GPT: the same clocks with shorter windows and a sharper onset of memory"
    paper: ClassVar[str] = "GPT-mini's window is shorter than DiT-mini's, and its copies rise more suddenly"
    criterion: ClassVar[str] = (
        "same data, medians over seeds: the window has fewer steps for GPT-mini than for DiT-mini, and the factor in "
        "steps from 10% to 50% copies is smaller. Pairs with no window in both, or with a run too short to tell, are "
        "left out"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig4", "fig20")
    grids: ClassVar[tuple[str, ...]] = ("calibration", "calibration-memory", "gpt-groups", "dit-groups", "half-copies")

    def judge(self, records: Records) -> Judgement:
        both = {preset: points_by_data(records.baseline(preset)) for preset in (DIT, GPT)}
        found = {(preset, key): one for preset, some in both.items() for key, one in some.items()}
        return with_enough_seeds(found, self.judged, memory_onset)

    def judged(self, found: Mapping[tuple[str, tuple[int, int, int]], Point]) -> Judgement:
        dit, gpt = ({key: one for (p, key), one in found.items() if p == preset} for preset in (DIT, GPT))
        pairs = [(dit[key], gpt[key]) for key in sorted(set(dit) & set(gpt))]
        if not pairs:
            return not_run(f"{DIT} and {GPT} on the same data")
        answers: list[Answer] = []
        words, used, values = [], list[Point](), dict[str, Any]()
        for name, measure in (("window in steps", window_length), ("factor from 10% to 50% copies", copy_factor)):
            said: list[Answer] = []
            for slow, fast in pairs:
                ours, theirs = (median_over(measure, one) for one in (fast, slow))
                answer = is_below(ours, theirs)
                if says_nothing(ours, theirs):
                    continue
                said.append(answer)
                used += [slow, fast]
                words.append(f"{name} at {slow}: GPT {ours}, DiT {theirs}")
                values[f"{name}, {slow}"] = {"gpt": ours.as_json(), "dit": theirs.as_json()}
            words += [] if said else [f"{name}: no run is long enough"]
            answers.append(all_of(said))
        if not used:
            return not_run(f"{DIT} and {GPT} on the same data, each beyond τ_mem")
        seeds = seeds_of(used, memory_onset)
        return Judgement.of(all_of(answers), "; ".join(words), seeds, values)


def median_over(measure: Callable[[Reading], Interval], point: Point) -> Interval:
    """Bounds of the median over seeds."""
    return median_of([measure(one) for one in informative(point.readings, memory_onset)])


def window_length(one: Reading) -> Interval:
    """The number of steps from τ_rule to τ_mem; none where copying came first."""
    if one.clocks.verdict == "empty":
        return Interval(0, 0)
    return (interval_of(one.memory) - interval_of(one.rule)).at_least(0.0)


def copy_factor(one: Reading) -> Interval:
    """The factor in steps from 10% to 50% copies."""
    half = printed_clocks(one.record, memory_threshold=HALF).memory
    if not one.memory.seen:
        return Interval(1, math.inf)
    return (interval_of(half) / interval_of(one.memory)).at_least(1.0)


def says_nothing(ours: Interval, theirs: Interval) -> bool:
    """Whether neither model has a window, or one of the runs ended before the answer."""
    ended_early = math.isinf(ours.high) or math.isinf(theirs.high)
    return ours.high == theirs.high == 0 or (ended_early and is_below(ours, theirs) == "undecided")
