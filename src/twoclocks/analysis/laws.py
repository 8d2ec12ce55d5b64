"""Laws τ = a·N^α over many runs: one fit of all, one per group, and fits with other assumptions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from twoclocks.clocks.collapse import Collapse, collapse
from twoclocks.clocks.law import Law, fit_law
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.regression import Family
from twoclocks.clocks.seeds import VarianceSplit, variance_split
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import flat, machine_settings, to_mapping
from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.runs.load import Run
from twoclocks.runs.settings import RunSettings

Clock = Literal["tau_mem", "tau_rule", "tau_gap"]
NAMES: dict[Clock, str] = {"tau_mem": "τ_mem", "tau_rule": "τ_rule", "tau_gap": "τ_gap"}
FIELDS: dict[Clock, str] = {"tau_mem": "memory_threshold", "tau_rule": "rule_threshold", "tau_gap": "gap_threshold"}
# What may differ between the runs of one law: their size, seeds and length, and how fast they were computed.
VARIES_IN_A_LAW = machine_settings(RunSettings) | {
    *("data.n", "data.seed", "data.part", "training.seed", "training.steps", "name", "description"),
}
FACTORS = (0.5, 2.0, 5.0)  # thresholds besides the chosen one, as multiples of it


@dataclass(frozen=True)
class Point:
    """One run in a law."""

    run: Run
    onset: Onset
    group: str

    @property
    def n(self) -> int:
        return self.run.settings.data.n

    @property
    def batch(self) -> int:
        return self.run.settings.training.batch


@dataclass(frozen=True)
class Fit:
    """A law, or the reason why there is none."""

    label: str
    law: Law | None
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"label": self.label, "law": None if self.law is None else self.law.as_json(), "reason": self.reason}


@dataclass(frozen=True)
class Laws:
    """All fits of one clock over several runs."""

    clock: Clock
    points: tuple[Point, ...]
    pooled: Law
    groups: tuple[Fit, ...]
    sensitivity: tuple[Fit, ...]  # the pooled fit, with another family or another threshold
    collapse: Collapse | str  # or the reason why there is none
    seeds: Mapping[str, VarianceSplit]  # by group and size, where seeds are crossed
    left_out: tuple[str, ...]  # runs that were excluded, each with the reason

    @property
    def rows(self) -> list[Fit]:
        return [Fit("all runs", self.pooled), *self.groups, *self.sensitivity]

    def as_json(self) -> dict[str, Any]:
        return {
            "clock": self.clock,
            "points": [
                {"run": str(one.run.path), "n": one.n, "batch": one.batch, "group": one.group, **one.onset.as_json()}
                for one in self.points
            ],
            "fits": [row.as_json() for row in self.rows],
            "collapse": self.collapse if isinstance(self.collapse, str) else self.collapse.as_json(),
            "seeds": {label: split.as_json() for label, split in self.seeds.items()},
            "left_out": list(self.left_out),
        }


def fit_runs(runs: Sequence[Run], clock: Clock = "tau_mem", threshold: float | None = None) -> Laws:
    """Fit the laws of a clock; ``threshold`` replaces the threshold of every run."""
    if clock not in get_args(Clock):
        raise UnknownNameError("clock", clock, get_args(Clock))
    points, left_out = read_points(runs, clock, threshold)
    pooled = law_of(points)
    labels = dict.fromkeys(point.group for point in points)
    groups = [attempt(label, [p for p in points if p.group == label]) for label in labels] if len(labels) > 1 else []
    return Laws(
        clock=clock,
        points=tuple(points),
        pooled=pooled,
        groups=tuple(groups),
        sensitivity=tuple(sensitivity(runs, clock, threshold, points)),
        collapse=collapse_of(points),
        seeds=crossed_seeds(points),
        left_out=tuple(left_out),
    )


def collapse_of(points: Sequence[Point]) -> Collapse | str:
    """Whether τ depends on steps or on samples seen, over runs that differ in batch; or why this is not known."""
    kinds = group_labels([point.run.settings for point in points], besides={"training.batch"})
    if len(set(kinds)) > 1:
        return f"runs differ in more than size and batch ({'; '.join(dict.fromkeys(kinds))}); compare them apart"
    try:
        return collapse([p.n for p in points], [p.batch for p in points], [p.onset for p in points])
    except UserError as error:
        return str(error)


def law_of(points: Sequence[Point], family: Family = "log-normal") -> Law:
    return fit_law([point.n for point in points], [point.onset for point in points], family)


def attempt(label: str, points: Sequence[Point], family: Family = "log-normal") -> Fit:
    """The law of these points, or the reason why there is none."""
    try:
        return Fit(label, law_of(points, family))
    except UserError as error:
        return Fit(label, None, str(error))


def sensitivity(runs: Sequence[Run], clock: Clock, threshold: float | None, points: Sequence[Point]) -> list[Fit]:
    """The pooled fit with Weibull scatter, and with other thresholds."""
    rows = [attempt("all runs, Weibull", points, "Weibull")]
    chosen = {threshold if threshold is not None else getattr(run.settings.clocks, FIELDS[clock]) for run in runs}
    if len(chosen) != 1:
        return rows
    (base,) = chosen
    # A validity threshold is scaled by its distance to 1, those of copies and gaps directly.
    others = [1 - (1 - base) * f for f in FACTORS] if clock == "tau_rule" else [base * f for f in FACTORS]
    for other in others:
        if clock == "tau_gap" or 0 < other < 1:
            try:
                rows.append(attempt(f"all runs, threshold {other:g}", read_points(runs, clock, other)[0]))
            except UserError as error:
                rows.append(Fit(f"all runs, threshold {other:g}", None, str(error)))
    return rows


def read_points(runs: Sequence[Run], clock: Clock, threshold: float | None = None) -> tuple[list[Point], list[str]]:
    """One point per run, and the reasons why other runs have none."""
    if not runs:
        raise UserError("runs: there are none; give run directories")
    points, left_out = [], []
    origins = {run.path.absolute().name for run in runs}
    for run, label in zip(runs, group_labels([run.settings for run in runs]), strict=True):
        reason = unfit(run, clock, origins)
        if reason is None:
            clocks = clocks_at(run, clock, threshold)
            if clock == "tau_rule" and clocks.learned_by_memory:
                reason = "its samples became valid as copies, so the rule was not learned"
            else:
                points.append(Point(run, chosen_onset(clocks, clock, run), label))
        if reason is not None:
            left_out.append(f"{run.label}: {reason}")  # no path: pages show it
    if not points:
        raise UserError(f"runs: none can be used ({left_out[0]}); give others")
    return points, left_out


def clocks_at(run: Run, clock: Clock, threshold: float | None) -> Clocks:
    """The run's clocks without change points, by its own settings or with another threshold of one clock."""
    if threshold is None:
        return run.clocks(changes=False)
    settings = replace(run.settings.clocks, **{FIELDS[clock]: threshold})  # type: ignore[arg-type]
    return settings.read(run.series(), run.copy_chance, changes=False)


def unfit(run: Run, clock: Clock, origins: Collection[str]) -> str | None:
    """Why a run must be excluded, or None."""
    origin = run.manifest.get("forked_from")
    if origin is not None and Path(origin["path"]).name in origins:  # forks lie beside what they come from
        return "it is a fork of another run here, and shares its measurements"
    status = run.status
    if clock != "tau_rule" and "stopped_at" in status and run.settings.clocks.stop == "caution":
        return "it was stopped because copies rose, which would bias the law"
    return None if any(True for _ in run.directory.metrics()) else "it holds no evaluation"


def chosen_onset(clocks: Clocks, clock: Clock, run: Run) -> Onset:
    """The onset of the named clock."""
    if clock == "tau_gap":
        if clocks.gap is None:
            raise UserError(
                f"{run.label}: the loss gap was not measured (there are no held-out samples); leave this run out"
            )
        return clocks.gap
    return clocks.memory if clock == "tau_mem" else clocks.rule


def group_labels(settings: Sequence[Any], besides: Collection[str] = ()) -> list[str]:
    """The settings in which runs differ besides size, seeds and length, in words; "all runs" without any."""
    tables = [
        {key: value for key, value in flat(to_mapping(one)).items() if not free(key) and key not in besides}
        for one in settings
    ]
    keys = sorted({key for table in tables for key in table})
    varying = [key for key in keys if len({str(table.get(key)) for table in tables}) > 1]
    return [", ".join(f"{key} {table[key]}" for key in varying if key in table) or "all runs" for table in tables]


def free(key: str) -> bool:
    """Whether a setting may differ between the runs of one law."""
    return key in VARIES_IN_A_LAW or key.startswith(("evaluation.", "clocks."))


def crossed_seeds(points: Sequence[Point]) -> dict[str, VarianceSplit]:
    """The variance of ln τ, split between training and data seed, wherever both were crossed at one size."""
    found = {}
    for label, n in dict.fromkeys((point.group, point.n) for point in points):
        members = [point for point in points if (point.group, point.n) == (label, n)]
        seeds = [(point.run.settings.training.seed, point.run.settings.data.seed) for point in members]
        values = [math.log(point.onset.estimate or math.nan) for point in members]
        try:
            name = f"N = {n:,}" if label == "all runs" else f"{label}, N = {n:,}"
            found[name] = variance_split([a for a, _ in seeds], [b for _, b in seeds], values)
        except UserError:
            continue  # seeds are not crossed, or an onset was not observed
    return found
