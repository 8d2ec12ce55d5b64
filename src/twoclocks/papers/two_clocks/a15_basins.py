"""Claim A15: basins are symmetric, then those of valid samples grow, then that of the training sample (P1 §4.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoclocks.dissection.views.basin import LINES, BasinInfo
from twoclocks.papers.claim import CLAIMS, Answer, all_of
from twoclocks.papers.intervals import Interval, is_positive, is_within
from twoclocks.papers.records import Record
from twoclocks.papers.two_clocks.run_by_run import Finding, RunByRun
from twoclocks.papers.two_clocks.runs import DIT
from twoclocks.papers.views import view_of

NEAR = 0.1  # half-widths are read on a grid of 0.05
BROKEN, UNSEEN = LINES.index("rule-breaking"), LINES.index("valid, unseen")
EARLY = 4  # the first of the three steps is τ_rule divided by this


@dataclass(frozen=True)
class Widths(Finding):
    """Half-widths of a training sample's basin (95% bands) before the rule, inside the window and at the end."""

    steps: tuple[int, int, int]
    broken: tuple[Interval, Interval, Interval]  # towards a rule-breaking neighbour
    unseen: tuple[Interval, Interval, Interval]  # towards a valid, unseen neighbour
    cube: tuple[float, float]  # of the ideal denoiser of the cube: towards either
    rule: tuple[float, float]  # of that of the rule
    memory: tuple[float, float]  # of that of the training set

    def answers(self) -> dict[str, Answer]:
        return {
            "symmetric before the rule": all_of(
                [near(self.broken[0], self.cube[0]), near(self.unseen[0], self.cube[1])]
            ),
            "valid ones grow with the rule": grows(self.broken[0], self.broken[1]),
            "symmetric between valid ones inside the window": near(self.unseen[1], self.rule[1]),
            "the training sample's grows with memory": grows(self.unseen[1], self.unseen[2]),
        }

    def words(self) -> str:
        at = [
            f"step {step:,}: {one:.2f} towards rule-breaking, {other:.2f} towards valid"
            for step, one, other in zip(self.steps, self.broken, self.unseen, strict=True)
        ]
        ideal = ", ".join(
            f"{name} {one:.2f} and {other:.2f}"
            for name, (one, other) in (("cube", self.cube), ("rule", self.rule), ("memory", self.memory))
        )
        return f"{', '.join(at)} (ideal: {ideal})"


@CLAIMS.register("A15")
class Basins(RunByRun):
    """DiT-mini at G = 3, at the noise scale in the middle of the critical band."""

    id: ClassVar[str] = "A15"
    title: ClassVar[str] = "Basins are symmetric, then valid ones grow, then the training sample's"
    paper: ClassVar[str] = (
        "before the rule all corners have symmetric basins; then valid ones expand over rule-breaking ones; at τ_mem "
        "the training sample's invades that of its valid neighbour"
    )
    criterion: ClassVar[str] = (
        "half-widths with 95% bands at three steps. Before the rule: within 0.1 of the cube oracle's in both "
        "directions. Inside the window: wider towards rule-breaking neighbours than before, towards valid ones within "
        "0.1 of the rule oracle's. At the end: wider towards valid ones than inside the window (bands apart)"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig3", "fig16")
    grids: ClassVar[tuple[str, ...]] = ("dissection",)

    preset: ClassVar[str] = DIT
    needed: ClassVar[str] = "basins, beyond both clocks"

    def finding(self, record: Record) -> Widths | None:
        return widths_of(record)


def widths_of(record: Record) -> Widths | None:
    """Widths at the three steps; None where basins were not measured, or the run has no window that ends."""
    info = view_of(record, "basin")
    if not isinstance(info, BasinInfo) or info.clocks is None or info.clocks.window is None:
        return None
    begin, end = info.clocks.window
    if not math.isfinite(end) or not {"cube", "rule", "memory"} <= set(info.oracles):
        return None
    at = [checkpoint(info, begin / EARLY), checkpoint(info, math.sqrt(begin * end)), len(info.steps) - 1]
    if len(set(at)) < len(at):
        return None
    level, low, high = info.level, info.width_low, info.width_high

    def spans(line: int) -> tuple[Interval, Interval, Interval]:
        one, two, three = (Interval(float(low[k, level, line]), float(high[k, level, line])) for k in at)
        return one, two, three

    def ideal(oracle: str) -> tuple[float, float]:
        found = info.ideal[info.oracles.index(oracle), level]
        return float(found[BROKEN]), float(found[UNSEEN])

    first, middle, last = (int(info.steps[k]) for k in at)
    oracles = ideal("cube"), ideal("rule"), ideal("memory")
    return Widths((first, middle, last), spans(BROKEN), spans(UNSEEN), *oracles)


def checkpoint(info: BasinInfo, step: float) -> int:
    """Index of the checkpoint that is nearest to a step, in the logarithm."""
    return int(np.abs(np.log(np.maximum(info.steps, 1) / max(step, 1.0))).argmin())


def near(width: Interval, ideal: float) -> Answer:
    """Whether a width is that of an oracle, up to ``NEAR``."""
    return is_within(width, ideal - NEAR, ideal + NEAR)


def grows(before: Interval, after: Interval) -> Answer:
    """Whether a width grows: yes if its bands are apart, no if its bands allow only growth of less than ``NEAR``."""
    growth = after - before
    if is_positive(growth) == "yes":
        return "yes"
    return "no" if growth.high < NEAR else "undecided"
