"""A paired experiment: the base and every intervention, trained on the same seeds, as the cells of one sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twoclocks.core.config import build, merge, nested, to_mapping
from twoclocks.core.errors import SettingError, UserError
from twoclocks.runs.columns import Weights
from twoclocks.runs.load import DONE, Run, RunReading
from twoclocks.runs.settings import RunSettings
from twoclocks.sweeps.cells import cell_path
from twoclocks.sweeps.coordinator import Sweep, run_sweep
from twoclocks.sweeps.executors import Executor
from twoclocks.sweeps.grid import Cell, Plan
from twoclocks.sweeps.row_keeper import RowKeeper
from twoclocks.widen.intervention import Intervention

BASE = "base"
RESULTS = ("widen.json", "widen.html")  # in the folder of the runs
FEWEST_SEEDS, SEEDS = 2, 3
LONGER = 2.0  # times the steps of the base, so that a delayed onset is still seen


@dataclass(frozen=True)
class Arm:
    """The runs of the base, or of one intervention: settings without their seeds."""

    name: str
    settings: RunSettings
    change: Mapping[str, Any]  # what differs from the base, by dotted name
    weights: Weights = "raw"

    def cell(self, seed: int) -> Cell:
        """The run of a seed: it chooses the data, the initial weights and the batches."""
        settings = replace(
            self.settings,
            data=replace(self.settings.data, seed=self.settings.data.seed + seed),
            training=replace(self.settings.training, seed=self.settings.training.seed + seed),
        )
        return Cell(settings.key(), {"intervention": self.name, "seed": seed}, settings)


@dataclass(frozen=True)
class PairedExperiment:
    """The arms of an experiment, the base first, and which interventions do not apply to it."""

    arms: tuple[Arm, ...]
    refused: Mapping[str, str]  # intervention: the reason
    seeds: int

    @property
    def base(self) -> RunSettings:
        return self.arms[0].settings

    @property
    def cells(self) -> list[tuple[Arm, int, Cell]]:
        """All runs: seed by seed, so that an interrupted experiment has whole blocks."""
        return [(arm, seed, arm.cell(seed)) for seed in range(self.seeds) for arm in self.arms]

    @property
    def plan(self) -> Plan:
        return Plan(f"widen-{self.base.name}", "", tuple(cell for _, _, cell in self.cells))

    def find(self, arm: Arm, seed: int, root: Path, rows: Path | None = None) -> RunReading | None:
        """The run of an arm and a seed, from the folder ``rows`` or its directory below ``root``; None: unfinished."""
        cell = arm.cell(seed)
        stored = None if rows is None else RowKeeper(rows).find(cell)
        if stored is not None:
            return stored
        run = Run(cell_path(root, cell))
        return run.reading() if run.path.exists() and run.status["status"] in DONE else None


def plan_experiment(
    base: RunSettings, interventions: Mapping[str, Intervention], seeds: int = SEEDS, longer: float = LONGER
) -> PairedExperiment:
    """The experiment on a base; runs are ``longer`` times as long, and end when copying is certain.

    The evaluations of the longer runs are as far apart as those of the base.
    """
    if seeds < FEWEST_SEEDS:
        raise SettingError("--seeds", seeds, f"use at least {FEWEST_SEEDS}: one pair shows no scatter; 3 are usual")
    if not 1 <= longer <= 1000:
        raise SettingError("--longer", longer, "use a number from 1 to 1000")
    start = base_arm(base, longer)
    arms, refused = [start], {}
    for name, intervention in interventions.items():
        try:
            arms.append(make_arm(name, start.settings, intervention.change(start.settings), intervention.weights))
        except UserError as error:
            refused[name] = str(error)
    if len(arms) == 1:
        reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise UserError(
            f"--with: no intervention applies ({reasons}); choose others, see 'twoclocks list interventions'"
        )
    return PairedExperiment(tuple(arms), refused, seeds)


def base_arm(base: RunSettings, longer: float) -> Arm:
    """The base as the experiment runs it."""
    steps = round(longer * base.training.steps)
    change: dict[str, Any] = {"training.steps": steps, "training.threads": 1, "evaluation.keep_weights": 0}
    if base.evaluation.steps is None:
        first, count = base.evaluation.first, base.evaluation.evaluations
        apart = math.log(base.training.steps / first) / max(count - 1, 1)
        change["evaluation.evaluations"] = count + math.ceil(math.log(longer) / apart) if apart > 0 else count
    elif longer > 1:
        fix = "runs that are longer need later evaluations too; use evaluation.evaluations, or --longer 1"
        raise SettingError("evaluation.steps", list(base.evaluation.steps), fix)
    if base.clocks.stop == "never":
        change["clocks.stop"] = "memory"
    return Arm(BASE, changed(base, change, f"{base.name}-{BASE}"), {})


def make_arm(name: str, base: RunSettings, change: Mapping[str, Any], weights: Weights) -> Arm:
    """An intervention on a base; UserError where it does not apply."""
    settings = changed(base, change, f"{base.name.removesuffix(f'-{BASE}')}-{name}")
    if settings.digest() == base.digest():
        raise UserError("it changes nothing here")
    return Arm(name, settings, change, weights)


def changed(base: RunSettings, change: Mapping[str, Any], name: str) -> RunSettings:
    mapping = merge(to_mapping(base), nested({**change, "name": name}))
    return build(RunSettings, mapping)


def run_experiment(
    experiment: PairedExperiment,
    root: Path,
    executor: Executor,
    observe: Callable[[Sweep], None],
    rows: Path | None = None,
    **options: Any,
) -> Sweep | None:
    """Train all runs that are missing; finished ones are skipped, interrupted ones continue.

    ``rows``: a folder for the rows of every run, written as soon as it ends. What is there is not trained again, though
    its run directory may be gone or on another machine. None: there was nothing to train.
    """
    options = {"besides": RESULTS, **options}
    if rows is None:
        return run_sweep(experiment.plan, root, executor, observe, **options)
    keeper = RowKeeper(rows)
    missing = tuple(cell for cell in experiment.plan.cells if keeper.find(cell) is None)
    if not missing:
        return None

    def watch(sweep: Sweep) -> None:
        keeper.write(sweep)
        observe(sweep)

    sweep = run_sweep(replace(experiment.plan, cells=missing), root, executor, watch, **options)
    keeper.write(sweep)
    return sweep
