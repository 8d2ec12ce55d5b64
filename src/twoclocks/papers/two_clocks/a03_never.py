"""Claim A3: parity of nine or more bits is never learned; late accuracy is memory (P1 §3, Fig. 1B, 2C, 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from twoclocks.clocks.looks import rate_bounds
from twoclocks.evaluation import ValidNew
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import (
    Point,
    Reading,
    listed,
    memory_onset,
    points_to_memory,
    seeds_of,
    with_enough_seeds,
)
from twoclocks.papers.two_clocks.runs import DIT, GPT

HARD = (9, 12, 18, 36)
MARGIN = 0.1  # above chance, as in P1's threshold of memorization
CONFIDENCE = 0.95


class NeverLearned(Claim):
    """Valid and new samples of hard rules, over the whole run."""

    id: ClassVar[str] = "A3"
    title: ClassVar[str] = "rules with G ≥ 9 are never learned: late accuracy is memory"
    criterion: ClassVar[str] = (
        "G = 9, 12, 18, 36: at every evaluation of every seed the valid and new samples are at most chance, 2^(−36/G), "
        "plus 0.1 (95% bounds over all evaluations), and τ_mem is reached; refuted where all seeds of a G and N have "
        "more"
    )
    revised: ClassVar[str] = "refuted only where all seeds of a G and N have more; before, one seed of three refuted"
    figures: ClassVar[tuple[str, ...]] = ("fig1", "fig2", "fig9")
    preset: ClassVar[str]

    def judge(self, records: Records) -> Judgement:
        hard = records.baseline(self.preset).where(rule__group=HARD)
        found = {key: one for key, one in points_to_memory(hard).items() if has_new(one)}
        return with_enough_seeds(found, self.judged, memory_onset)

    def judged(self, found: Mapping[tuple[int, int], Point]) -> Judgement:
        if not found:
            return not_run(f"{self.preset} at G = 9, 12, 18 and 36, each beyond τ_mem")
        missing = set(HARD) - {group for group, _ in found}
        by_seed = {str(point): [never_learned(run) for run in point.readings] for point in found.values()}
        answers: list[Answer] = [agreed(some) for some in by_seed.values()]
        if missing:
            answers.append("undecided")
        excess = {group: max(largest_excess(p) for (g, _), p in found.items() if g == group) for group, _ in found}
        described = ", ".join(f"{value:+.1%} at G = {group}" for group, value in excess.items())
        measured = f"largest excess of valid and new samples over chance: {described} (N {listed(n for _, n in found)})"
        measured += f"; not run: G = {listed(missing)}" if missing else ""
        unseen = [str(point) for point in found.values() if math.isinf(point.memory.high)]
        measured += f"; no copying yet: {'; '.join(unseen)}" if unseen else ""
        torn = [name for name, some in by_seed.items() if {"yes", "no"} <= {*some}]
        measured += f"; seeds disagree at {'; '.join(torn)}" if torn else ""
        seeds = seeds_of(found.values(), memory_onset)
        values: dict[str, Any] = {"excess": {str(group): value for group, value in excess.items()}}
        return Judgement.of(all_of(answers), measured, seeds, values)


@CLAIMS.register("A3-dit")
class DiTNeverLearned(NeverLearned):
    """DiT-mini."""

    paper: ClassVar[str] = "DiT of all sizes: G ≥ 9 is not acquired; its accuracy is due to memorization"
    grids: ClassVar[tuple[str, ...]] = ("dit-groups",)
    preset: ClassVar[str] = DIT


@CLAIMS.register("A3-gpt")
class GPTNeverLearned(NeverLearned):
    """GPT-mini."""

    paper: ClassVar[str] = "GPT-mini: only simple rules have a rule transition (Fig. 4B)"
    figures: ClassVar[tuple[str, ...]] = ("fig4", "fig20")
    grids: ClassVar[tuple[str, ...]] = ("gpt-groups",)
    preset: ClassVar[str] = GPT


def has_new(point: Point) -> bool:
    """Whether valid and new samples were counted."""
    return all(ValidNew.name in one.record.run.metrics() for one in point.readings)


def chance_of(one: Reading) -> float:
    """The chance of a uniform sample to be valid, and so nearly that of being valid and new."""
    settings = one.record.settings
    return float(2.0 ** -(settings["rule.length"] // settings["rule.group"]))


def never_learned(one: Reading) -> Answer:
    """Whether one run copied, and never had more valid and new samples than chance."""
    trials = np.asarray(one.record.run.series().trials, dtype=np.float64)
    low, high = rate_bounds(np.asarray(one.record.run.hits(ValidNew.name), dtype=np.float64), trials, CONFIDENCE)
    most = chance_of(one) + MARGIN
    if (low > most).any():
        return "no"
    return "yes" if (high <= most).all() and one.memory.seen else "undecided"


def largest_excess(point: Point) -> float:
    """The largest measured proportion of valid and new samples, minus chance."""
    return max(float(np.nanmax(one.record.run.metrics()[ValidNew.name])) - chance_of(one) for one in point.readings)
