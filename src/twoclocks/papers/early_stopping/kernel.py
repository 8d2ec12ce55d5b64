"""B6: one hidden layer memorizes at a time ∝ P/σ, whatever its batch; the optimizer shifts a constant (P2 App. G)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

from torch import Tensor

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.power import Power, fit_power
from twoclocks.core.errors import UserError
from twoclocks.data.encodings import Encoding
from twoclocks.data.sets import held_out, training_set
from twoclocks.objectives.fixed_noise import FixedNoise
from twoclocks.oracles.kernel_descent import KernelDescent
from twoclocks.oracles.ntk import decay_steps, memory_eigenvalue
from twoclocks.papers.recipe import AS_PRINTED, LEAN, RECIPES, Measurement, Recipe, Verdict
from twoclocks.rules.base import Rule
from twoclocks.runs import Run, RunSettings, load_settings
from twoclocks.runs.settings import DataSettings

LIMITS = {"ntk": "NTK", "mean_field": "mean-field"}
# Steps times rate, for each point and at the paper's σ, by which the clock has surely struck.
ENOUGH = {"ntk-sgd": 320.0, "mean_field-sgd": 70.0, "ntk-adam": 1.0}
THRESHOLDS = (0.05, 0.2, 0.5)  # besides the preset's, for the record
CLAIMED = {"size": 1.0, "noise": -1.0, "batch": 0.0}
TOLERANCE = 0.15


@dataclass(frozen=True)
class Cell:
    """One run of the laboratory."""

    limit: str
    size: int
    variance: float
    batch: int
    optimizer: str = "sgd"

    @property
    def kind(self) -> str:
        return f"{self.limit}-{self.optimizer}"

    @property
    def label(self) -> str:
        return f"{self.kind}-p{self.size}-v{self.variance:g}-b{self.batch}"


@dataclass(frozen=True)
class Sweep:
    """τ_gap of runs that differ in one thing, beside what the kernel predicts of them."""

    rates: list[float]
    places: list[float]
    onsets: list[Onset]
    predicted: list[float]  # of gradient descent in the NTK limit; empty for Adam
    others: dict[float, list[Onset]]  # onsets at other thresholds

    @cached_property
    def power(self) -> Power | None:
        return attempt(self.places, self.onsets)

    @property
    def ratios(self) -> list[float]:
        """Measured over predicted, where the clock was seen."""
        pairs = zip(self.onsets, self.predicted, strict=True)
        return [one.estimate / predicted for one, predicted in pairs if one.estimate is not None]

    def as_json(self) -> dict[str, Any]:
        powers = {"": self.power, **{f"{level:g}": attempt(self.places, found) for level, found in self.others.items()}}
        plain = {level: None if power is None else power.as_json() for level, power in powers.items()}
        return {
            "rates": self.rates,
            "places": self.places,
            "onsets": [one.as_json() for one in self.onsets],
            "predicted": self.predicted,
            "power": plain.pop(""),
            "other_thresholds": plain,
        }


@RECIPES.register("p2-kernel")
class Kernel(Recipe):
    """Width 8,192 in 64 dimensions: sweeps over P, σ and batch in both limits, and over P with Adam."""

    claim: ClassVar[str] = "B6"
    paper: ClassVar[str] = (
        "one hidden layer: τ_mem ∝ P and ∝ 1/σ (NTK and mean-field), whatever the batch and optimizer"
    )
    criterion: ClassVar[str] = (
        "in both limits the exponent is within ±0.15 of 1 (P), −1 (σ) and 0 (batch), or its 95% interval holds it; "
        "Adam's and SGD's intervals over P overlap"
    )
    preset: ClassVar[str] = "p2-kernel"
    change: ClassVar[Mapping[str, Any]] = {}  # to the preset, for smaller forms of the recipe
    # Mean-field's own is smaller: there the scatter of small batches delays memory, at 10 by a half, at 2.5 hardly.
    rates: ClassVar[Mapping[str, float]] = {"ntk-sgd": 10.0, "mean_field-sgd": 2.5, "ntk-adam": 0.1}
    sizes: ClassVar[tuple[int, ...]] = (128, 256, 512, 1024)
    variances: ClassVar[tuple[float, ...]] = (0.008, 0.016, 0.032, 0.064)
    batches: ClassVar[tuple[int, ...]] = (8, 16, 32, 64, 128)
    base: ClassVar[tuple[int, float]] = (128, 0.032)  # the paper's P and σ²

    def sweeps(self) -> dict[str, list[Cell]]:
        """The runs of each sweep, by name; they share the paper's point."""
        size, variance = self.base
        found = {}
        for limit in LIMITS:
            found[f"{limit}-size"] = [Cell(limit, n, variance, n) for n in self.sizes]
            found[f"{limit}-noise"] = [Cell(limit, size, each, size) for each in self.variances]
            found[f"{limit}-batch"] = [Cell(limit, size, variance, batch) for batch in self.batches]
        found["adam-size"] = [Cell("ntk", n, variance, n, "adam") for n in self.sizes]
        return found

    def settings(self, device: str) -> dict[str, RunSettings]:
        cells = dict.fromkeys(cell for cells in self.sweeps().values() for cell in cells)
        return {cell.label: self.cell_settings(cell, device) for cell in cells}

    def cell_settings(self, cell: Cell, device: str) -> RunSettings:
        rate = self.rates[cell.kind]
        pace = ENOUGH[cell.kind] / rate * math.sqrt(self.base[1] / cell.variance)
        steps = round(pace * cell.size)
        change = {
            "data": {"n": cell.size},
            "model": {"limit": cell.limit},
            "objective": {"sigma": math.sqrt(cell.variance)},
            "training": {
                **{"steps": steps, "batch": cell.batch, "device": device},
                **{"optimizer": cell.optimizer, "learning_rate": rate},
            },
            "evaluation": {"evaluations": 48, "first": max(5, steps // 60), **LEAN},
            "clocks": AS_PRINTED,
        }
        return load_settings(self.preset, merged(change, self.change))

    def measure(self, runs: Mapping[str, Run]) -> Measurement:
        sweeps = {
            name: self.sweep(name.rpartition("-")[2], [cell for cell in cells if cell.label in runs], runs)
            for name, cells in self.sweeps().items()
        }
        powers = {
            name: found.power
            for name, found in sweeps.items()
            if found.power is not None and len(found.onsets) == len(self.sweeps()[name])
        }
        values = {
            "sweeps": {name: found.as_json() for name, found in sweeps.items()},
            "local_mode": {cell.label: local_mode(runs[cell.label].settings) for cell in self.local(runs)},
        }
        if set(powers) < set(sweeps):
            return Measurement(
                "unfinished", f"{len(runs)} runs; powers known of: {', '.join(powers) or 'none'}", values
            )
        return Measurement(self.verdict(powers), self.sentence(powers, sweeps), values)

    def sweep(self, kind: str, cells: Sequence[Cell], runs: Mapping[str, Run]) -> Sweep:
        found = [runs[cell.label] for cell in cells]
        levels = THRESHOLDS if set(runs) == {cell.label for each in self.sweeps().values() for cell in each} else ()
        places = [{"size": cell.size, "noise": math.sqrt(cell.variance), "batch": cell.batch}[kind] for cell in cells]
        return Sweep(
            rates=sorted({run.settings.training.learning_rate for run in found}),
            places=places,
            onsets=[gap_clock(run) for run in found],
            predicted=[predict(run.settings) for run in found if run.settings.training.optimizer == "sgd"],
            others={level: [gap_clock(run, level) for run in found] for level in levels},
        )

    def local(self, runs: Mapping[str, Run]) -> list[Cell]:
        """The runs to which P2's Eq. (10) speaks."""
        sweeps = self.sweeps()
        cells = dict.fromkeys([*sweeps["ntk-size"], *sweeps["ntk-noise"]])
        return [cell for cell in cells if cell.label in runs]

    def verdict(self, powers: Mapping[str, Power]) -> Verdict:
        scaled = all(
            powers[f"{limit}-{kind}"].agrees_with(claimed, TOLERANCE)
            for limit in LIMITS
            for kind, claimed in CLAIMED.items()
        )
        same = powers["adam-size"].overlaps(powers["ntk-size"])
        return "reproduced" if scaled and same else "not reproduced"

    def sentence(self, powers: Mapping[str, Power], sweeps: Mapping[str, Sweep]) -> str:
        parts = [
            f"{name}: P^{powers[f'{limit}-size']}, σ^{powers[f'{limit}-noise']}, batch^{powers[f'{limit}-batch']}"
            for limit, name in LIMITS.items()
        ]
        ratios = [ratio for name in ("ntk-size", "ntk-noise") for ratio in sweeps[name].ratios]
        return (
            f"τ_gap ∝ {'; '.join(parts)}; Adam: P^{powers['adam-size']}; NTK, full batch: {min(ratios):.2f} to "
            f"{max(ratios):.2f} times the kernel's prediction (P {min(self.sizes)}–{max(self.sizes)}, 1 seed)"
        )


def merged(change: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of settings, those of ``more`` laid over the others."""
    return {key: {**change.get(key, {}), **more.get(key, {})} for key in {**change, **more}}


def gap_clock(run: Run, threshold: float | None = None) -> Onset:
    """τ_gap, with the run's own threshold or another."""
    clocks = run.settings.clocks
    chosen = clocks if threshold is None else replace(clocks, gap_threshold=threshold)
    found = chosen.gap_onset(run.series())
    assert found is not None, "there are always points outside the training set"
    return found


def attempt(places: Sequence[float], onsets: Sequence[Onset]) -> Power | None:
    try:
        return fit_power(places, onsets)
    except UserError:
        return None


def predict(settings: RunSettings) -> float:
    """τ_gap of gradient descent in the NTK limit, from the data and the rate alone."""
    assert isinstance(settings.objective, FixedNoise) and settings.encoding is not None
    found = descent(settings.rule, settings.encoding, settings.data, settings.objective.sigma)
    return found.gap_onset(settings.training.learning_rate, settings.clocks.gap_threshold)


@cache
def descent(rule: Rule, encoding: Encoding, data: DataSettings, sigma: float) -> KernelDescent:
    rows = training_set(rule, data.n, data.seed, data.part)
    train, test = (points(rule, encoding, part) for part in (rows, held_out(rule, rows, 128, data.seed)))
    # Large sets scatter less from output to output, and take more memory.
    return KernelDescent(train, test, sigma, outputs=max(2, min(16, 4096 // len(train))))


@cache
def local_mode(settings: RunSettings) -> dict[str, float]:
    """P2's Eq. (10) and the time that follows from it."""
    assert isinstance(settings.objective, FixedNoise) and settings.encoding is not None
    rows = training_set(settings.rule, settings.data.n, settings.data.seed, settings.data.part)
    train = points(settings.rule, settings.encoding, rows)
    found = memory_eigenvalue(train, settings.objective.sigma, draws=max(4, 8192 // len(train)))
    tau = decay_steps(found.value, settings.training.learning_rate, train.shape[1])
    return {"eigenvalue": found.value, "error": found.error, "tau": tau}


def points(rule: Rule, encoding: Encoding, rows: Tensor) -> Tensor:
    """Rows as points (n, d), float64."""
    return encoding.encode(rule, rows).flatten(1).double()
