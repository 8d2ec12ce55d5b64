"""The runs behind P2's kernel experiments (App. G): one hidden layer learns the score of P points at one noise level.

Three things are varied, one at a time, from P2's own point (P = 128, σ² = 0.032, full batch): the size P, the noise σ
and the batch. The seed draws the points, the initial weights and the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from twoclocks.analysis.groups import grouped
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.power import Power, fit_power
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.errors import UserError
from twoclocks.papers.as_printed import stable
from twoclocks.papers.grids import grid
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import Scale
from twoclocks.papers.seeds import Seeds, fewest
from twoclocks.sweeps.grid import Cell

Axis = Literal["size", "noise", "batch"]
LIMITS = {"p2-kernel": "NTK", "p2-kernel-mean-field": "mean-field"}  # by preset
SIZES = (128, 256, 512, 1024, 2048)
VARIANCES = (0.004, 0.008, 0.016, 0.032, 0.064, 0.128)
BATCHES = (8, 16, 32, 64, 128)
SIZE, VARIANCE = 128, 0.032  # P2's own
STEPS_PER_POINT = 24.0  # the gap opens after 8 to 13 steps per point at P2's noise, in proportion to 1/σ
THRESHOLD = 0.1  # of the gap: the loss starts at 1
VARIED = ("training.batch", "objective.sigma")


def kernel_cell(scale: Scale, preset: str, n: int, variance: float, batch: int, seed: int) -> Cell:
    """One run."""
    steps = round(STEPS_PER_POINT * n * math.sqrt(VARIANCE / variance))
    point = {"data.n": n, "training.batch": batch, "objective.sigma": math.sqrt(variance)}
    return scale.cell(preset, {**point, **seeded(seed)}, evaluated(steps), length=steps)


def seeded(seed: int) -> dict[str, int]:
    """Other points and other initial weights."""
    return {"training.seed": seed, "data.seed": seed}


def evaluated(steps: int) -> dict[str, Any]:
    """Evaluations that lie a factor of 1.09 apart around the expected onset; only losses are read."""
    kept = {"evaluation.keep_samples": 0, "evaluation.keep_weights": 0, "clocks.above_chance": True}
    return {"evaluation.evaluations": 48, "evaluation.first": max(1, steps // 60), **kept}


@grid("kernel-noise", 7, "one hidden layer over the noise level σ, in both limits")
def kernel_noise(scale: Scale) -> Iterator[Cell]:
    (n,) = scale.sizes((SIZE,))
    for preset in LIMITS:
        for variance in scale.thinned(VARIANCES):
            for seed in scale.seeds(3):
                yield kernel_cell(scale, preset, n, variance, n, seed)


@grid("kernel-batch", 7, "one hidden layer over the batch, in both limits")
def kernel_batch(scale: Scale) -> Iterator[Cell]:
    (n,) = scale.sizes((SIZE,))
    for preset in LIMITS:
        for batch in scale.thinned(BATCHES):
            for seed in scale.seeds(3):
                yield kernel_cell(scale, preset, n, VARIANCE, batch * n // SIZE or 1, seed)


@grid("kernel-size", 7, "one hidden layer over the number of points P, in both limits")
def kernel_size(scale: Scale) -> Iterator[Cell]:
    for n in scale.sizes(SIZES):  # the longest runs last
        for preset in LIMITS:
            for seed in scale.seeds(3):
                yield kernel_cell(scale, preset, n, VARIANCE, n, seed)


@dataclass(frozen=True)
class AxisRuns:
    """Runs that differ in one setting and in seeds."""

    axis: Axis
    records: tuple[Record, ...]

    @cached_property
    def places(self) -> list[float]:
        """The value of the setting that differs, by run."""
        name = {"size": "data.n", "noise": "objective.sigma", "batch": "training.batch"}[self.axis]
        return [float(one.value(name)) for one in self.records]

    def onsets(self, threshold: float = THRESHOLD) -> list[Onset]:
        return [gap_onset_of(one, threshold) for one in self.records]

    def power(self, threshold: float = THRESHOLD) -> Power | None:
        """τ_gap as a power of the setting; None if the onsets do not identify it."""
        return power_or_none(self.places, self.onsets(threshold))

    def missing(self, scale: Scale) -> list[float]:
        """The planned values that no run has."""
        there = set(self.places)
        return [value for value in planned(self.axis, scale) if not any(math.isclose(value, one) for one in there)]

    def local_powers(self) -> str:
        """The power between neighbouring values, from their median onsets, such as ``0.77, 1.04, 1.16``."""
        seen = [pair for pair in zip(self.places, self.onsets(), strict=True) if pair[1].estimate is not None]
        by_place = grouped(seen, lambda pair: pair[0])
        middles = {place: median(one.estimate or 0.0 for _, one in same) for place, same in by_place.items()}
        steps = [math.log(middles[b] / middles[a]) / math.log(b / a) for a, b in pairwise(sorted(middles))]
        return ", ".join(f"{step:.2f}" for step in steps)

    @property
    def seeds(self) -> Seeds:
        """The seeds that every value has."""
        by_place = grouped(zip(self.places, self.records, strict=True), lambda pair: pair[0])
        return fewest(Records(one for _, one in same).seeds for same in by_place.values())


def planned(axis: Axis, scale: Scale) -> tuple[float, ...]:
    """The values of an axis at a scale."""
    (n,) = scale.sizes((SIZE,))
    if axis == "size":
        return tuple(map(float, scale.sizes(SIZES)))
    if axis == "noise":
        return tuple(math.sqrt(variance) for variance in scale.thinned(VARIANCES))
    return tuple(float(batch * n // SIZE or 1) for batch in scale.thinned(BATCHES))


def axis_runs(records: Records, preset: str, axis: Axis) -> AxisRuns:
    """The runs of a limit along one axis, in order; none that diverged, and none without losses."""
    scale = records.scale
    (n,) = scale.sizes((SIZE,))
    same = stable(records.baseline(preset, VARIED))
    found = [one for one in same if one.run.series().gaps is not None and is_on(one, axis, n)]
    runs = AxisRuns(axis, tuple(found))
    order = sorted(range(len(found)), key=lambda k: (runs.places[k], found[k].seed))
    return AxisRuns(axis, tuple(found[k] for k in order))


def is_on(one: Record, axis: Axis, n: int) -> bool:
    """Whether a run differs from P2's own point along this axis only."""
    here = {
        "size": one.n == n,
        "noise": math.isclose(one.value("objective.sigma") ** 2, VARIANCE, rel_tol=1e-6),
        "batch": one.value("training.batch") == one.n,
    }
    return all(value for name, value in here.items() if name != axis)


def gap_onset_of(one: Record, threshold: float) -> Onset:
    """When the held-out loss exceeds the training loss by this much, for three evaluations in a row."""
    series = one.run.series()
    sustain = min(3, len(series.steps))
    found = ClockSettings(gap_threshold=threshold, sustain=sustain, confidence=0).gap_onset(series)
    assert found is not None, "runs without losses are left out"
    return found


def power_or_none(places: Sequence[float], onsets: Iterable[Onset]) -> Power | None:
    try:
        return fit_power(places, list(onsets))
    except UserError:
        return None
