"""Claim A5: larger models have earlier clocks, both of them (P1 §3, Fig. 2C)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run
from twoclocks.papers.intervals import Interval, is_below
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import (
    Point,
    memory_onset,
    points_by_data,
    rule_onset,
    seeds_of,
    with_enough_seeds,
)

SIZES = ("nano", "mini", "b")
CLOCKS: dict[str, Callable[[Point], Interval]] = {"τ_rule": lambda one: one.rule, "τ_mem": lambda one: one.memory}
Setting = tuple[int, int, int, str]  # group size, N, seed of the data, precision


class EarlierWithCapacity(Claim):
    """Three sizes of one kind of network on the same data at the same precision."""

    id: ClassVar[str] = "A5"
    title: ClassVar[str] = "larger models have earlier clocks, both"
    criterion: ClassVar[str] = (
        "same data, same precision: the median over seeds of nano is later than that of mini, and mini's later than "
        "B's, for τ_rule and for τ_mem; a pair of which neither was reached says nothing"
    )
    grids: ClassVar[tuple[str, ...]] = ("network-sizes", "network-sizes-seeds")
    family: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        sizes = {size: by_setting(records.baseline(f"p1-{self.family}-{size}")) for size in SIZES}
        found = {(size, setting): one for size, some in sizes.items() for setting, one in some.items()}
        return with_enough_seeds(found, self.judged, rule_onset, memory_onset)

    def judged(self, found: Mapping[tuple[str, Setting], Point]) -> Judgement:
        there = {size: {setting: one for (s, setting), one in found.items() if s == size} for size in SIZES}
        settings = sorted(set.intersection(*(set(some) for some in there.values())))
        if not settings:
            return not_run(f"p1-{self.family}-nano, -mini and -b with the same data and precision")
        answers: list[Answer] = []
        words, values = [], dict[str, Any]()
        for name, clock in CLOCKS.items():
            said: dict[tuple[int, int, int], list[Answer]] = {}  # by G, N and pair of networks: one per training set
            for setting in settings:
                group, n, data, _ = setting
                three = [clock(there[size][setting]) for size in SIZES]
                for pair, answer in enumerate(map(earlier_if_reached, three[1:], three)):
                    if answer is not None:
                        said.setdefault((group, n, pair), []).append(answer)
                of_data = f", data {data}" if data else ""
                values[f"{name} G={group} N={n}{of_data}"] = {s: v.as_json() for s, v in zip(SIZES, three, strict=True)}
                words.append(f"{name} at G = {group}, N = {n:,}{of_data}: {', '.join(map(str, three))}")
            answers.append(all_of([agreed(one) for one in said.values()]))  # undecided where no pair was reached
        seeds = seeds_of((there[size][setting] for size in SIZES for setting in settings), rule_onset, memory_onset)
        measured = f"nano, mini, B: {'; '.join(words)}"
        return Judgement.of(all_of(answers), measured, seeds, values)


@CLAIMS.register("A5-dit")
class DiTCapacity(EarlierWithCapacity):
    """DiT-nano, DiT-mini and DiT-B."""

    paper: ClassVar[str] = "DiT: larger models have an earlier rule transition and copy earlier; nano hardly copies"
    figures: ClassVar[tuple[str, ...]] = ("fig1", "fig2", "fig10")
    family: ClassVar[str] = "dit"


@CLAIMS.register("A5-gpt")
class GPTCapacity(EarlierWithCapacity):
    """GPT-nano, GPT-mini and GPT-B."""

    paper: ClassVar[str] = (
        "GPT-B: τ_mem = 0.5·N^1.06, GPT-mini: 2.1·N^0.97 (Table 4); model capacity shifts both clocks"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig10", "table4")
    family: ClassVar[str] = "gpt"


def by_setting(records: Records) -> dict[Setting, Point]:
    """All seeds of training for the same data and precision."""
    return {
        (*key, precision): point
        for precision, runs in records.by("training.precision").items()
        for key, point in points_by_data(runs).items()
    }


def earlier_if_reached(larger: Interval, smaller: Interval) -> Answer | None:
    """Whether the larger network is earlier; None where neither was reached."""
    if math.isinf(larger.high) and math.isinf(smaller.high):
        return None
    return is_below(larger, smaller)
