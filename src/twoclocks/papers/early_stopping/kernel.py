"""Claim B6: one hidden layer memorizes at a time ∝ P/σ, independent of batch and optimizer (P2 App. G)."""

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
from twoclocks.data.sets import held_out
from twoclocks.data.settings import DataSettings
from twoclocks.objectives.fixed_noise import FixedNoise
from twoclocks.oracles.kernel_descent import KernelDescent
from twoclocks.oracles.ntk import decay_steps, memory_eigenvalue
from twoclocks.papers.recipe import AS_PRINTED, NO_WEIGHTS, RECIPES, Measurement, Recipe, Verdict
from twoclocks.rules.base import Rule
from twoclocks.runs import Run, RunSettings, load_settings

LIMITS = {"ntk": "NTK", "mean_field": "mean-field"}
# Length of a run, as steps · rate per training point at the paper's σ: well after τ_gap.
ENOUGH = {"ntk-sgd": 320.0, "mean_field-sgd": 70.0, "ntk-adam": 1.0}
THRESHOLDS = (0.05, 0.2, 0.5)  # further thresholds at which powers are reported
CLAIMED = {"size": 1.0, "noise": -1.0, "batch": 0.0}
TOLERANCE = 0.15


@dataclass(frozen=True)
class Condition:
    """The settings in which the runs of this recipe differ; each condition is one run."""

    limit: str
    size: int
    variance: float
    batch: int
    optimizer: str = "sgd"

    @property
    def kind(self) -> str:
        """Limit and optimizer, which determine the learning rate."""
        return f"{self.limit}-{self.optimizer}"

    @property
    def label(self) -> str:
        """The label of the run."""
        return f"{self.kind}-p{self.size}-v{self.variance:g}-b{self.batch}"


@dataclass(frozen=True)
class AxisResult:
    """τ_gap of runs that differ in one setting (an axis), with the kernel's predictions."""

    rates: list[float]
    places: list[float]
    onsets: list[Onset]
    predicted: list[float]  # for SGD in the NTK limit; empty for Adam
    others: dict[float, list[Onset]]  # onsets at other thresholds

    @cached_property
    def power(self) -> Power | None:
        """The fitted power; None if the onsets do not identify it."""
        return fit_power_or_none(self.places, self.onsets)

    @property
    def ratios(self) -> list[float]:
        """Measured over predicted τ_gap, where it was observed."""
        pairs = zip(self.onsets, self.predicted, strict=True)
        return [one.estimate / predicted for one, predicted in pairs if one.estimate is not None]

    def as_json(self) -> dict[str, Any]:
        powers = {
            "": self.power,
            **{f"{level:g}": fit_power_or_none(self.places, found) for level, found in self.others.items()},
        }
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
    """Width 8,192 in 64 dimensions: runs along the axes P, σ and batch in both limits, and along P with Adam."""

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
    # Smaller in the mean-field limit: there noise of small batches delays memory, by half at rate 10, hardly at 2.5.
    rates: ClassVar[Mapping[str, float]] = {"ntk-sgd": 10.0, "mean_field-sgd": 2.5, "ntk-adam": 0.1}
    sizes: ClassVar[tuple[int, ...]] = (128, 256, 512, 1024)
    variances: ClassVar[tuple[float, ...]] = (0.008, 0.016, 0.032, 0.064)
    batches: ClassVar[tuple[int, ...]] = (8, 16, 32, 64, 128)
    base: ClassVar[tuple[int, float]] = (128, 0.032)  # the paper's P and σ²

    def axes(self) -> dict[str, list[Condition]]:
        """The conditions along each axis, by name; all axes contain the paper's condition."""
        size, variance = self.base
        found = {}
        for limit in LIMITS:
            found[f"{limit}-size"] = [Condition(limit, n, variance, n) for n in self.sizes]
            found[f"{limit}-noise"] = [Condition(limit, size, each, size) for each in self.variances]
            found[f"{limit}-batch"] = [Condition(limit, size, variance, batch) for batch in self.batches]
        found["adam-size"] = [Condition("ntk", n, variance, n, "adam") for n in self.sizes]
        return found

    def settings(self, device: str) -> dict[str, RunSettings]:
        conditions = dict.fromkeys(condition for conditions in self.axes().values() for condition in conditions)
        return {condition.label: self.run_settings(condition, device) for condition in conditions}

    def run_settings(self, condition: Condition, device: str) -> RunSettings:
        rate = self.rates[condition.kind]
        steps_per_point = ENOUGH[condition.kind] / rate * math.sqrt(self.base[1] / condition.variance)
        steps = round(steps_per_point * condition.size)
        change = {
            "data": {"n": condition.size},
            "model": {"limit": condition.limit},
            "objective": {"sigma": math.sqrt(condition.variance)},
            "training": {
                **{"steps": steps, "batch": condition.batch, "device": device},
                **{"optimizer": condition.optimizer, "learning_rate": rate},
            },
            "evaluation": {"evaluations": 48, "first": max(5, steps // 60), **NO_WEIGHTS},
            "clocks": AS_PRINTED,
        }
        return load_settings(self.preset, merged(change, self.change))

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        results = {
            name: self.axis_result(
                name.rpartition("-")[2], [condition for condition in conditions if condition.label in runs], runs
            )
            for name, conditions in self.axes().items()
        }
        powers = {
            name: found.power
            for name, found in results.items()
            if found.power is not None and len(found.onsets) == len(self.axes()[name])
        }
        values = {
            "sweeps": {name: found.as_json() for name, found in results.items()},
            "local_mode": {
                condition.label: local_mode(runs[condition.label].settings) for condition in self.local_conditions(runs)
            },
        }
        if set(powers) < set(results):
            return Measurement(
                "unfinished", f"{len(runs)} runs; powers known of: {', '.join(powers) or 'none'}", values
            )
        return Measurement(self.verdict(powers), self.sentence(powers, results), values)

    def axis_result(self, kind: str, conditions: Sequence[Condition], runs: Mapping[str, Run]) -> AxisResult:
        found = [runs[condition.label] for condition in conditions]
        levels = (
            THRESHOLDS if set(runs) == {condition.label for each in self.axes().values() for condition in each} else ()
        )
        places = [
            {"size": condition.size, "noise": math.sqrt(condition.variance), "batch": condition.batch}[kind]
            for condition in conditions
        ]
        return AxisResult(
            rates=sorted({run.settings.training.learning_rate for run in found}),
            places=places,
            onsets=[gap_clock(run) for run in found],
            predicted=[predicted_gap_onset(run.settings) for run in found if run.settings.training.optimizer == "sgd"],
            others={level: [gap_clock(run, level) for run in found] for level in levels},
        )

    def local_conditions(self, runs: Mapping[str, Run]) -> list[Condition]:
        """The finished conditions to which P2's Eq. (10) applies."""
        axes = self.axes()
        conditions = dict.fromkeys([*axes["ntk-size"], *axes["ntk-noise"]])
        return [condition for condition in conditions if condition.label in runs]

    def verdict(self, powers: Mapping[str, Power]) -> Verdict:
        scaled = all(
            powers[f"{limit}-{kind}"].agrees_with(claimed, TOLERANCE)
            for limit in LIMITS
            for kind, claimed in CLAIMED.items()
        )
        same = powers["adam-size"].overlaps(powers["ntk-size"])
        return "reproduced" if scaled and same else "not reproduced"

    def sentence(self, powers: Mapping[str, Power], results: Mapping[str, AxisResult]) -> str:
        parts = [
            f"{name}: P^{powers[f'{limit}-size']}, σ^{powers[f'{limit}-noise']}, batch^{powers[f'{limit}-batch']}"
            for limit, name in LIMITS.items()
        ]
        ratios = [ratio for name in ("ntk-size", "ntk-noise") for ratio in results[name].ratios]
        return (
            f"τ_gap ∝ {'; '.join(parts)}; Adam: P^{powers['adam-size']}; NTK, full batch: {min(ratios):.2f} to "
            f"{max(ratios):.2f} times the kernel's prediction (P {min(self.sizes)}–{max(self.sizes)}, 1 seed)"
        )


def merged(change: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge sections of settings; values of ``more`` replace those of ``change``."""
    return {key: {**change.get(key, {}), **more.get(key, {})} for key in {**change, **more}}


def gap_clock(run: Run, threshold: float | None = None) -> Onset:
    """τ_gap of a run, with its own threshold or another."""
    clocks = run.settings.clocks
    chosen = clocks if threshold is None else replace(clocks, gap_threshold=threshold)
    found = chosen.gap_onset(run.series())
    assert found is not None, "there are always points outside the training set"
    return found


def fit_power_or_none(places: Sequence[float], onsets: Sequence[Onset]) -> Power | None:
    """The fitted power; None if the onsets do not identify it."""
    try:
        return fit_power(places, onsets)
    except UserError:
        return None


@cache
def predicted_gap_onset(settings: RunSettings) -> float:
    """τ_gap that the kernel predicts for SGD in the NTK limit, from data and learning rate; cached."""
    assert isinstance(settings.objective, FixedNoise) and settings.encoding is not None
    found = kernel_descent(settings.rule, settings.encoding, settings.data, settings.objective.sigma)
    return found.gap_onset(settings.training.learning_rate, settings.clocks.gap_threshold)


@cache
def kernel_descent(rule: Rule, encoding: Encoding, data: DataSettings, sigma: float) -> KernelDescent:
    """The predicted gradient descent on the training set of a run; cached."""
    rows = data.training_set(rule)
    train, test = (points(rule, encoding, part) for part in (rows, held_out(rule, rows, 128, data.seed)))
    # Large sets differ less between outputs, and take more memory.
    return KernelDescent(train, test, sigma, outputs=max(2, min(16, 4096 // len(train))))


@cache
def local_mode(settings: RunSettings) -> dict[str, float]:
    """The eigenvalue of P2's Eq. (10) for a run, and the time τ that follows from it."""
    assert isinstance(settings.objective, FixedNoise) and settings.encoding is not None
    rows = settings.data.training_set(settings.rule)
    train = points(settings.rule, settings.encoding, rows)
    found = memory_eigenvalue(train, settings.objective.sigma, draws=max(4, 8192 // len(train)))
    tau = decay_steps(found.value, settings.training.learning_rate, train.shape[1])
    return {"eigenvalue": found.value, "error": found.error, "tau": tau}


def points(rule: Rule, encoding: Encoding, rows: Tensor) -> Tensor:
    """Encode rows as points (n, d), float64."""
    return encoding.encode(rule, rows).flatten(1).double()
