"""Claim A1: in one diffusion run the model learns the cube, then the rule, then the training set (P1 §3, Fig. 2B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset, onset
from twoclocks.core.arrays import Floats
from twoclocks.core.proportion import clopper_pearson
from twoclocks.evaluation import Invalid, SampleAccuracy, SampleMemorization
from twoclocks.papers.as_printed import PRINTED
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run, verdict_of
from twoclocks.papers.intervals import Interval, is_earlier, is_positive, largest_of, number
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.parity import PAPER_N, Reading, at_papers_n, memory_onset, points_to_memory
from twoclocks.papers.two_clocks.runs import DIT

GROUP = 3
ON_CUBE = 0.9  # of the samples have every entry within 0.5 of ±1
COPY_FREE = 0.01  # copies beyond chance
HALF = 0.5
CONFIDENCE = 0.95


@CLAIMS.register("A1")
class CubeRuleMemory(Claim):
    """DiT-mini at G = 3 and the paper's N, or else the largest N at which copying was seen."""

    id: ClassVar[str] = "A1"
    title: ClassVar[str] = "cube, then rule, then memory, with a dip of rule accuracy at τ_mem"
    paper: ClassVar[str] = "DiT-mini, G = 3, N = 4,096: three onsets in this order; a small dip of accuracy at τ_mem"
    criterion: ClassVar[str] = (
        "at N = 4,096, in every seed: 90% on the cube, then τ_rule, then τ_mem; and the largest fall of rule accuracy "
        "after τ_mem is larger than any in an equal number of evaluations of the same run after τ_rule with less than "
        "1% copies (95% bounds over all evaluations). Without a larger fall, a run that ended before 50% copies is "
        "undecided"
    )
    revised: ClassVar[str] = (
        "falls are compared with the noise of the samples, since noise alone could make one; seeds must agree, since "
        "one of three refuted; other N no longer decide"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig2",)
    grids: ClassVar[tuple[str, ...]] = ("calibration-memory", "half-copies", "dit-law", "dit-law-seeds")

    def judge(self, records: Records) -> Judgement:
        found = points_to_memory(records.baseline(DIT).where(rule__group=GROUP))
        point = found.get((GROUP, PAPER_N)) or max(found.values(), key=lambda one: one.n, default=None)
        if point is None:
            return not_run(f"{DIT} at G = 3 beyond τ_mem")
        answers: list[Answer] = []
        words, values = [], dict[str, Any]()
        for one in point.readings:
            cube, pair = cube_onset(one), dips(one)
            answers.append(all_of([*in_order(one, cube), dip_answer(one, pair)]))
            falls = "no stretch to compare" if pair is None else f"falls {pair[0]}, before {pair[1]}"
            words.append(f"cube {cube or 'not measured'}, τ_rule {one.rule}, τ_mem {one.memory}, {falls}")
            clocks = {"cube": None if cube is None else cube.as_json(), "rule": one.rule.as_json()}
            shown = None if pair is None else [dip.as_json() for dip in pair]
            values[one.record.seed_words] = {**clocks, "memory": one.memory.as_json(), "dips": shown}
        seeds = point.seeds_to(memory_onset)
        measured = f"N = {number(point.n)}: {'; '.join(words)}"
        found_here = Judgement(verdict_of(agreed(answers), seeds), measured, seeds, values)
        return at_papers_n(found_here, point.n, records.scale)


@dataclass(frozen=True)
class Dip:
    """The largest fall of accuracy in a stretch of evaluations: as measured, and its bounds."""

    measured: float
    bounds: Interval

    def __str__(self) -> str:
        return f"{self.measured:.1%} ({self.bounds:.1%})"

    def as_json(self) -> dict[str, Any]:
        return {"measured": self.measured, "bounds": self.bounds.as_json()}


def cube_onset(one: Reading) -> Onset | None:
    """When nine of ten samples lie on the cube; None where this was not measured."""
    column = Invalid.column(0.5)
    if column not in one.record.run.metrics():
        return None
    series = one.record.run.series()
    on_cube = np.asarray(series.trials) - np.asarray(one.record.run.hits(column))
    sustain = min(PRINTED.sustain, len(series.steps))
    return onset(series.steps, on_cube, series.trials, ON_CUBE, sustain, confidence=0)


def in_order(one: Reading, cube: Onset | None) -> list[Answer]:
    """Whether the cube comes before the rule, and the rule before memory."""
    if not one.rule.seen:  # copying came first, or the run ended
        return ["no" if one.memory.seen else "undecided"]
    first: Answer = "undecided" if cube is None else is_earlier(cube, one.rule)
    return [first, is_earlier(one.rule, one.memory)]


def dips(one: Reading) -> tuple[Dip, Dip] | None:
    """The largest fall of accuracy from τ_mem on, and the largest in as many copy-free evaluations in a row.

    Both stretches have at most half as many evaluations as are copy-free, so that there are several to compare with.
    All bounds of both falls hold together with 95% confidence.
    """
    run = one.record.run
    step = run.metrics()["step"]
    copied = run.metrics()[SampleMemorization.name] - run.copy_chance
    if not one.rule.seen or not one.memory.seen:
        return None
    copies = np.flatnonzero((copied >= COPY_FREE) & (step >= one.rule.upper))
    end = copies[0] if len(copies) else len(step)
    free = np.flatnonzero(step[:end] >= one.rule.upper)
    late = np.flatnonzero(step >= one.memory.lower)
    length = min(len(late), len(free) // 2)
    if length < 2:
        return None
    hits, trials = np.asarray(run.hits(SampleAccuracy.name)), np.asarray(run.series().trials)
    low, high = clopper_pearson(hits, trials, (1 - CONFIDENCE) / (2 * (len(free) + length)))
    stretches = [free[k : k + length] for k in range(len(free) - length + 1)]

    def largest(some: Sequence[npt.NDArray[np.int64]]) -> Dip:
        measured = max(fall(hits[k] / trials[k], hits[k] / trials[k]) for k in some)
        return Dip(measured, largest_of([Interval(fall(low[k], high[k]), fall(high[k], low[k])) for k in some]))

    return largest([late[:length]]), largest(stretches)


def fall(before: Floats, after: Floats) -> float:
    """The largest difference between a value before and a later one after; 0 if nothing falls.

    >>> curve = np.array([0.9, 0.99, 0.95, 0.97, 0.96])
    >>> fall(curve, curve), fall(curve - 0.01, curve + 0.01)  # as measured, and at least so much if each errs by 0.01
    (0.04..., 0.02...)
    """
    return max(0.0, float((np.maximum.accumulate(before)[:-1] - after[1:]).max()))


def dip_answer(one: Reading, pair: tuple[Dip, Dip] | None) -> Answer:
    """Whether accuracy falls more after τ_mem than before; undecided where the noise allows both answers."""
    if pair is None:
        return "undecided"
    answer = is_positive(pair[0].bounds - pair[1].bounds)
    copied = one.record.run.metrics()[SampleMemorization.name]
    return "undecided" if answer == "no" and np.nanmax(copied) < HALF else answer
