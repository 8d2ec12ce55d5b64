"""What an experiment found: by which factor each intervention moves τ_rule, τ_mem and the width of the window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from twoclocks.clocks.effects import Effect, Span, fit_effects, holm
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import UserError
from twoclocks.evaluation.diversity import DistinctNew
from twoclocks.evaluation.whole_samples import SampleAccuracy, ValidNew
from twoclocks.rules import RULES
from twoclocks.runs.columns import LOSS_HELD_OUT, STEP, averaged
from twoclocks.runs.load import Run
from twoclocks.runs.operations import step_operations
from twoclocks.widen.experiment import BASE, Arm, PairedExperiment

Outcome = Literal["learned", "memory", "window"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
UNITS = ("steps", "samples", "operations", "seconds")


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


@dataclass(frozen=True)
class ArmResult:
    """An arm with its runs: what differs from the base, what a step costs, and the effects that could be estimated."""

    arm: Arm
    runs: tuple[RunResult, ...]
    cost: Mapping[str, float]  # of one step, relative to the base, by unit
    effects: Mapping[Outcome, Effect] = field(default_factory=dict)

    @property
    def closed(self) -> int:
        """Runs without an open window."""
        return sum("window" not in run.times for run in self.runs)

    def in_unit(self, outcome: Outcome, unit: str) -> tuple[float, float, float] | None:
        """Ratio and interval of an effect in steps, samples, operations or seconds."""
        effect = self.effects.get(outcome)
        if effect is None:
            return None
        low, high = effect.interval
        return effect.ratio * self.cost[unit], low * self.cost[unit], high * self.cost[unit]

    def quality(self) -> dict[str, float]:
        """Means over the seeds of what is best inside of the window."""
        names = dict.fromkeys(name for run in self.runs for name in run.quality)
        return {name: float(np.mean([run.quality[name] for run in self.runs if name in run.quality])) for name in names}


@dataclass(frozen=True)
class Findings:
    """All arms of an experiment, the base first, and what could not be estimated."""

    arms: tuple[ArmResult, ...]
    refused: Mapping[str, str]  # interventions that do not apply, with the reason
    notes: tuple[str, ...]
    has_rule: bool
    provenance: Mapping[str, Any]

    @property
    def base(self) -> ArmResult:
        return self.arms[0]

    @property
    def interventions(self) -> tuple[ArmResult, ...]:
        return self.arms[1:]

    @property
    def questions(self) -> int:
        """Effects that were asked about together: p-values hold for all of them."""
        return sum(len(one.effects) for one in self.interventions)

    def as_json(self) -> dict[str, Any]:
        return {
            "base": self.base.arm.settings.name.removesuffix(f"-{BASE}"),
            "n": self.base.arm.settings.data.n,
            "rule": RULES.name_of(self.base.arm.settings.rule),
            "questions": self.questions,
            "arms": [arm_json(one) for one in self.arms],
            "does_not_apply": dict(self.refused),
            "notes": list(self.notes),
            **self.provenance,
        }


def arm_json(one: ArmResult) -> dict[str, Any]:
    def run_json(run: RunResult) -> dict[str, Any]:
        times = {
            key: [span.lower, span.upper if math.isfinite(span.upper) else None] for key, span in run.times.items()
        }
        return {**asdict(run), "times": times}

    def ends(values: tuple[float, ...] | None) -> list[float | None] | None:
        return None if values is None else [value if math.isfinite(value) else None for value in values]

    return {
        "arm": one.arm.name,
        "change": dict(one.arm.change),
        "cost_per_step": dict(one.cost),
        "windows_not_open": one.closed,
        "effects": {
            outcome: {**effect.as_json(), "by_unit": {unit: ends(one.in_unit(outcome, unit)) for unit in UNITS}}
            for outcome, effect in one.effects.items()
        },
        "quality": one.quality(),
        "runs": [run_json(run) for run in one.runs],
    }


def read_findings(experiment: PairedExperiment, root: Path, rows: Path | None = None) -> Findings:
    """Read the finished runs of an experiment from their rows, or else their directories, and estimate all effects."""
    results: dict[str, list[RunResult]] = {}
    manifests, shared = [], False
    for arm, seed, _ in experiment.cells:
        run = experiment.run(arm, seed, root, rows)
        manifests.append(run.manifest)
        shared = shared or run.was_together
        if run.status["status"] not in ("finished", "diverged"):
            raise UserError(f"{run.path}: the run of {arm.name}, seed {seed}, is not finished; give the command again")
        results.setdefault(arm.name, []).append(read_result(arm, seed, run))
    effects, notes = estimate(results)
    if shared:
        notes = [*notes, "Some runs were trained together with others, so their seconds are also those of the others."]
    seconds = {name: float(np.median([run.step_seconds for run in runs])) for name, runs in results.items()}
    base = experiment.arms[0]
    found = []
    for arm in experiment.arms:
        samples = arm.settings.training.batch / base.settings.training.batch
        operations = step_operations(arm.settings) / step_operations(base.settings)
        cost = {
            "steps": 1.0,
            "samples": samples,
            "operations": operations,
            "seconds": seconds[arm.name] / seconds[BASE],
        }
        of_arm = {outcome: one[arm.name] for outcome, one in effects.items() if arm.name in one}
        found.append(ArmResult(arm, tuple(results[arm.name]), cost, of_arm))
    # Of the runs themselves: they may have been made elsewhere, and before.
    provenance = {key: manifests[0].get(key) for key in ("commit", "versions", "machine")}
    provenance["commits"] = sorted({str(one.get("commit")) for one in manifests})
    provenance |= {"settings": to_mapping(base.settings), "seeds": experiment.seeds}
    return Findings(tuple(found), experiment.refused, tuple(notes), base.settings.rule.has_rule, provenance)


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


def estimate(results: Mapping[str, Sequence[RunResult]]) -> tuple[dict[Outcome, dict[str, Effect]], list[str]]:
    """Effects by outcome and arm, with p-values for all of them together; and what could not be estimated."""
    found: dict[tuple[Outcome, str], Effect] = {}
    # A run that diverged copies nothing because it is broken: as a censored time it would look like a delay.
    broken = [name for name, runs in results.items() if any(run.status == "diverged" for run in runs)]
    notes = [f"{name}: a run diverged, so its effects are not estimated" for name in broken]
    for outcome in OUTCOMES:
        sound = {name: runs for name, runs in results.items() if name not in broken}
        whole = {name: runs for name, runs in sound.items() if all(outcome in run.times for run in runs)}
        if BASE not in whole:
            notes.append(f"{TITLES[outcome]}: not every run of the base has one, so there is nothing to compare with")
            continue
        rows = [
            (run.seed, None if name == BASE else name, run.times[outcome])
            for name, runs in whole.items()
            for run in runs
        ]
        if len(whole) == 1:
            continue
        try:
            effects = fit_effects(*map(list, zip(*rows, strict=True)))
        except UserError as error:
            notes.append(f"{TITLES[outcome]}: {error}")
            continue
        found |= {(outcome, name): effect for name, effect in effects.items()}
    together: dict[Outcome, dict[str, Effect]] = {}
    for (outcome, name), effect in holm_of(found).items():
        together.setdefault(outcome, {})[name] = effect
    return together, notes


def holm_of(effects: Mapping[tuple[Outcome, str], Effect]) -> dict[tuple[Outcome, str], Effect]:
    """``holm`` over all outcomes and arms."""
    by_key = {f"{outcome} {name}": (outcome, name) for outcome, name in effects}
    adjusted = holm({key: effects[pair] for key, pair in by_key.items()})
    return {pair: adjusted[key] for key, pair in by_key.items()}


TITLES: dict[Outcome, str] = {"learned": "τ_rule", "memory": "τ_mem", "window": "width of the window"}
