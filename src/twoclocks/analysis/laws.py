"""Laws τ = a·N^α over many runs: one fit of all, one per group, and fits with other assumptions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from twoclocks.analysis.groups import group_labels, grouped
from twoclocks.clocks.collapse import Collapse, collapse
from twoclocks.clocks.law import Law, fit_law
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.regression import Family
from twoclocks.clocks.seeds import VarianceSplit, variance_split
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.size_collapse import SizeCollapse, collapse_over_sizes
from twoclocks.clocks.window import Clocks
from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.runs.load import Run

Clock = Literal["tau_mem", "tau_rule", "tau_gap", "tau_ext", "tau_gen"]
NAMES: dict[Clock, str] = {
    "tau_mem": "τ_mem",
    "tau_rule": "τ_rule",
    "tau_gap": "τ_gap",
    "tau_ext": "τ_ext",
    "tau_gen": "τ_gen",
}
FIELDS: dict[Clock, str] = {  # the settings with their thresholds; τ_gen is relative to the best of a run, and has none
    "tau_mem": "memory_threshold",
    "tau_rule": "rule_threshold",
    "tau_gap": "gap_threshold",
    "tau_ext": "memory_threshold",
}
# Clocks that a run may lack, and why.
MISSING: dict[Clock, str] = {
    "tau_gap": "the loss gap was not measured (there are no held-out samples)",
    "tau_ext": "extraction was not measured (evaluation.prompts is 0)",
    "tau_gen": "the quality of its samples was not measured",
}
MOST_CURVES = 500  # runs whose whole curves are compared: a few milliseconds each
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
    collapse: Collapse | SizeCollapse | str  # the second where all runs have one batch; or why there is none
    seeds: Mapping[str, VarianceSplit]  # by group and size, where seeds are crossed
    left_out: tuple[str, ...]  # runs that were excluded, each with the reason

    @property
    def rows(self) -> list[Fit]:
        return [Fit("all runs", self.pooled), *self.groups, *self.sensitivity]

    @property
    def collapse_sentence(self) -> str:
        """How onsets agree on steps·batch/N, and which test this is."""
        name = "Steps or samples seen"
        if isinstance(self.collapse, SizeCollapse):
            name = f"Collapse over N{' (as in P1, Fig. 2H)' if self.clock == 'tau_mem' else ''}"
        return f"{name}: {self.collapse}"

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


def fit_runs(
    runs: Sequence[Run], clock: Clock = "tau_mem", threshold: float | None = None, most_groups: float = math.inf
) -> Laws:
    """Fit the laws of a clock; ``threshold`` replaces the threshold of every run.

    More than ``most_groups`` groups get no laws of their own, since each takes about as long as that of all runs.
    """
    if clock not in FIELDS:
        raise UnknownNameError("clock", clock, FIELDS)
    labels = group_labels([run.settings for run in runs])
    points, left_out = read_points(runs, clock, threshold, labels)
    groups = grouped(points, lambda point: point.group)
    return Laws(
        clock=clock,
        points=tuple(points),
        pooled=law_of(points),
        groups=tuple(attempt(*group) for group in groups.items()) if 1 < len(groups) <= most_groups else (),
        sensitivity=tuple(sensitivity(runs, clock, threshold, points, labels)),
        collapse=collapse_of(points, clock),
        seeds=crossed_seeds(points),
        left_out=tuple(left_out),
    )


def collapse_of(points: Sequence[Point], clock: Clock) -> Collapse | SizeCollapse | str:
    """How onsets agree on steps·batch/N: over batches, or over sizes where all runs have one batch; or why not."""
    kinds = group_labels([point.run.settings for point in points], besides={"training.batch"})
    if len(set(kinds)) > 1:
        return f"runs differ in more than size and batch ({'; '.join(dict.fromkeys(kinds))}); compare them apart"
    try:
        if len({point.batch for point in points}) == 1:
            return size_collapse_of(points, clock)
        return collapse([p.n for p in points], [p.batch for p in points], [p.onset for p in points])
    except UserError as error:
        return str(error)


def size_collapse_of(points: Sequence[Point], clock: Clock) -> SizeCollapse:
    """P1's test on runs of one batch: their onsets and, for τ_mem, their memorization curves on steps·batch/N."""
    batches = {point.batch for point in points}
    if len(batches) > 1:
        raise UserError(f"training.batch: {sorted(batches)} differ; P1's test is at one batch, give runs of one")
    settings = points[0].run.settings.clocks
    with_curves = clock == "tau_mem" and len(points) <= MOST_CURVES
    return collapse_over_sizes(
        [point.n for point in points],
        batches.pop(),
        [point.onset for point in points],
        [point.run.series() for point in points] if with_curves else None,
        sustain=settings.sustain,
        confidence=settings.confidence,
    )


def law_of(points: Sequence[Point], family: Family = "log-normal") -> Law:
    return fit_law([point.n for point in points], [point.onset for point in points], family)


def attempt(label: str, points: Sequence[Point], family: Family = "log-normal") -> Fit:
    """The law of these points, or the reason why there is none."""
    try:
        return Fit(label, law_of(points, family))
    except UserError as error:
        return Fit(label, None, str(error))


def sensitivity(
    runs: Sequence[Run], clock: Clock, threshold: float | None, points: Sequence[Point], labels: Sequence[str]
) -> list[Fit]:
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
                rows.append(attempt(f"all runs, threshold {other:g}", read_points(runs, clock, other, labels)[0]))
            except UserError as error:
                rows.append(Fit(f"all runs, threshold {other:g}", None, str(error)))
    return rows


def read_points(
    runs: Sequence[Run], clock: Clock, threshold: float | None = None, labels: Sequence[str] | None = None
) -> tuple[list[Point], list[str]]:
    """One point per run, and the reasons why other runs have none; ``labels``: the groups of the runs, if known."""
    if not runs:
        raise UserError("runs: there are none; give run directories")
    points, left_out = [], []
    origins = {run.path.absolute().name for run in runs}
    labels = labels if labels is not None else group_labels([run.settings for run in runs])
    for run, label in zip(runs, labels, strict=True):
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
    clocks = run.clocks(changes=False)
    if threshold is None:
        return clocks
    series, settings = run.series(), with_threshold(run.settings.clocks, clock, threshold)
    if clock == "tau_gap":
        return replace(clocks, gap=settings.gap_onset(series))
    if clock == "tau_ext":
        return replace(clocks, extraction=settings.extraction_clock(series))
    if clock == "tau_mem":
        return replace(clocks, memory=settings.memory_clock(series, run.copy_chance))
    return replace(clocks, rule=settings.rule_clock(series))


@lru_cache(maxsize=64)
def with_threshold(settings: ClockSettings, clock: Clock, threshold: float) -> ClockSettings:
    """The settings with another threshold of one clock."""
    return replace(settings, **{FIELDS[clock]: threshold})  # type: ignore[arg-type]


def unfit(run: Run, clock: Clock, origins: Collection[str]) -> str | None:
    """Why a run must be excluded, or None."""
    origin = run.manifest.get("forked_from")
    if origin is not None and Path(origin["path"]).name in origins:  # forks lie beside what they come from
        return "it is a fork of another run here, and shares its measurements"
    status = run.status
    if clock != "tau_rule" and "stopped_at" in status and run.settings.clocks.stop == "caution":
        return "it was stopped because copies rose, which would bias the law"
    return None if run.is_evaluated else "it holds no evaluation"


def chosen_onset(clocks: Clocks, clock: Clock, run: Run) -> Onset:
    """The onset of the named clock."""
    onsets: dict[Clock, Onset | None] = {
        "tau_mem": clocks.memory,
        "tau_rule": clocks.rule,
        "tau_gap": clocks.gap,
        "tau_ext": clocks.extraction,
        "tau_gen": clocks.generation,
    }
    found = onsets[clock]
    if found is None:
        raise UserError(f"{run.label}: {MISSING[clock]}; leave this run out")
    return found


def crossed_seeds(points: Sequence[Point]) -> dict[str, VarianceSplit]:
    """The variance of ln τ, split between training and data seed, wherever both were crossed at one size."""
    found = {}
    for (label, n), members in grouped(points, lambda point: (point.group, point.n)).items():
        seeds = [(point.run.settings.training.seed, point.run.settings.data.seed) for point in members]
        values = [math.log(point.onset.estimate or math.nan) for point in members]
        try:
            name = f"N = {n:,}" if label == "all runs" else f"{label}, N = {n:,}"
            found[name] = variance_split([a for a, _ in seeds], [b for _, b in seeds], values)
        except UserError:
            continue  # seeds are not crossed, or an onset was not observed
    return found
