"""What an experiment found: by which factor each intervention moves τ_rule, τ_mem and the width of the window."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.clocks.effects import Effect
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import UserError
from twoclocks.rules import RULES
from twoclocks.runs.load import RunReading
from twoclocks.runs.operations import step_operations
from twoclocks.widen.estimate import estimate
from twoclocks.widen.experiment import BASE, FEWEST_SEEDS, Arm, PairedExperiment
from twoclocks.widen.run_result import Outcome, RunResult, read_result

UNITS = ("steps", "samples", "operations", "seconds")


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
    missing: Mapping[str, Sequence[int]]  # intervention: seeds without a finished run
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
            "missing": {name: list(seeds) for name, seeds in self.missing.items()},
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


def read_findings(
    experiment: PairedExperiment, root: Path, rows: Path | None = None, incomplete: bool = False
) -> Findings:
    """Read the finished runs of an experiment from their rows, or else their directories, and estimate all effects.

    ``incomplete``: runs may be missing; effects are estimated from the others.
    """
    runs: dict[str, dict[int, RunReading]] = {arm.name: {} for arm in experiment.arms}
    missing: dict[str, list[int]] = {}
    for arm, seed, _ in experiment.cells:
        run = experiment.find(arm, seed, root, rows)
        if run is None:
            missing.setdefault(arm.name, []).append(seed)
        else:
            runs[arm.name][seed] = run
    check_runs(runs, missing, root, incomplete)
    results = {
        arm.name: [read_result(arm, seed, run) for seed, run in runs[arm.name].items()] for arm in experiment.arms
    }
    effects, notes = estimate(results)
    every = [run for of_arm in runs.values() for run in of_arm.values()]
    if missing:
        notes = [missing_words(missing, len(experiment.cells)), *notes]
    if any(run.was_together for run in every):
        notes = [*notes, "Some runs were trained together with others, so their seconds are also those of the others."]
    found = [
        ArmResult(
            arm, tuple(results[arm.name]), costs, {o: one[arm.name] for o, one in effects.items() if arm.name in one}
        )
        for arm, costs in zip(experiment.arms, step_costs(experiment, results), strict=True)
        if results[arm.name]
    ]
    base = experiment.arms[0].settings
    # Of the runs themselves: they may have been made elsewhere, and before.
    provenance = {key: every[0].manifest.get(key) for key in ("commit", "versions", "machine")}
    provenance["commits"] = sorted({str(run.manifest.get("commit")) for run in every})
    provenance |= {"settings": to_mapping(base), "seeds": experiment.seeds}
    return Findings(tuple(found), experiment.refused, tuple(notes), base.rule.has_rule, missing, provenance)


def check_runs(
    runs: Mapping[str, Mapping[int, RunReading]], missing: Mapping[str, Sequence[int]], root: Path, incomplete: bool
) -> None:
    """Raise UserError if runs are missing that a comparison needs."""
    if missing and not incomplete:
        name, seeds = next(iter(missing.items()))
        count = sum(map(len, missing.values()))
        raise UserError(
            f"{root}: {count} runs are not finished, the first is {name} with seed {seeds[0]}; give the command again "
            "to train them, or with --finished to compare the others"
        )
    if len(runs[BASE]) < FEWEST_SEEDS:
        raise UserError(
            f"--finished: {len(runs[BASE])} runs of the base are finished, and a comparison needs {FEWEST_SEEDS}; "
            "give the command without it to train the runs that are missing"
        )


def missing_words(missing: Mapping[str, Sequence[int]], runs: int) -> str:
    """Which runs are missing, and what that means for the estimates."""
    names = "; ".join(f"{name} {', '.join(map(str, seeds))}" for name, seeds in missing.items())
    return (
        f"{sum(map(len, missing.values()))} of {runs} runs are not finished (intervention, seeds: {names}), so the "
        "estimates are of the others. Comparing again and again while runs end finds more than 5% of what is not there."
    )


def step_costs(
    experiment: PairedExperiment, results: Mapping[str, Sequence[RunResult]]
) -> Iterator[Mapping[str, float]]:
    """What a step of each arm costs, relative to the base, by unit."""
    base = experiment.arms[0].settings
    seconds = {name: float(np.median([run.step_seconds for run in runs])) for name, runs in results.items() if runs}
    for arm in experiment.arms:
        yield {
            "steps": 1.0,
            "samples": arm.settings.training.batch / base.training.batch,
            "operations": step_operations(arm.settings) / step_operations(base),
            "seconds": seconds.get(arm.name, math.nan) / seconds[BASE],
        }
