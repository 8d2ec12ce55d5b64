"""One run as a comparison sees it: its times as intervals of steps, its cost per step, its best quality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from twoclocks.clocks.effects import Span
from twoclocks.clocks.window import Clocks
from twoclocks.evaluation.diversity import DistinctNew
from twoclocks.evaluation.whole_samples import SampleAccuracy, ValidNew
from twoclocks.runs.columns import LOSS_HELD_OUT, STEP, averaged
from twoclocks.runs.load import Run
from twoclocks.widen.experiment import Arm

Outcome = Literal["learned", "memory", "window"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class RunResult:
    """One run of an experiment: its times in steps, its cost per step, its quality inside of the window."""

    arm: str
    seed: int
    status: str  # finished or diverged
    window_words: str
    times: Mapping[Outcome, Span]  # without "window" where the window is not open
    step_seconds: float
    quality: Mapping[str, float]  # best inside of the window, by column


def read_result(arm: Arm, seed: int, run: Run) -> RunResult:
    clocks = run.clocks(changes=False, weights=arm.weights)
    return RunResult(
        arm=arm.name,
        seed=seed,
        status=run.status["status"],
        window_words=str(clocks),
        times=times_of(measured_clocks(run, arm)),
        step_seconds=run.step_seconds,
        quality=best_in_window(run, clocks, arm),
    )


def measured_clocks(run: Run, arm: Arm) -> Clocks:
    """The clocks of the measured curves, without confidence bounds: between two neighbouring evaluations.

    Bounds hold for one run alone, and are wide. Here the scatter between runs says how certain a comparison is; what
    the samples of an evaluation add to it by chance is part of that scatter.
    """
    settings = replace(run.settings.clocks, confidence=0)
    return settings.read(run.series(arm.weights), run.copy_chance, changes=False)


def times_of(clocks: Clocks) -> dict[Outcome, Span]:
    """The onsets of a run, and the width of its window, as intervals of steps.

    What is learned only after copying began was not learned (P1 C.7): then ``learned`` is later than that.
    """
    memory, learned = clocks.memory, clocks.learned
    found: dict[Outcome, Span] = {"memory": Span(memory.lower, memory.upper)}
    if learned is None:
        return found
    found["learned"] = Span(learned.lower, learned.upper)
    if clocks.verdict == "empty":
        found["learned"] = Span(memory.lower, math.inf)
        return found
    if learned.seen and memory.upper > learned.lower:
        found["window"] = Span(max(0.0, memory.lower - learned.upper), memory.upper - learned.lower)
    return found


def best_in_window(run: Run, clocks: Clocks, arm: Arm) -> dict[str, float]:
    """Best values at evaluations inside of the window: valid and new, how many of these differ, held-out loss."""
    if clocks.window is None:
        return {}
    begin, end = clocks.window
    columns = run.metrics()
    inside = (columns[STEP] >= begin) & (columns[STEP] <= end)
    found = {}
    for name, best in ((SampleAccuracy.name, np.nanmax), (ValidNew.name, np.nanmax), (DistinctNew.name, np.nanmax)):
        column = averaged(name) if arm.weights == "averaged" else name
        if column in columns and np.isfinite(columns[column][inside]).any():
            found[name] = float(best(columns[column][inside]))
    if LOSS_HELD_OUT in columns and arm.weights == "raw" and np.isfinite(columns[LOSS_HELD_OUT][inside]).any():
        found[LOSS_HELD_OUT] = float(np.nanmin(columns[LOSS_HELD_OUT][inside]))
    return found
