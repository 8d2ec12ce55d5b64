"""Claim B6 on a grammar: Adam and SGD at their largest stable learning rates (P2 Fig. 15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from twoclocks.papers.early_stopping.grammar import grammar_run
from twoclocks.papers.early_stopping.stable_rate import largest_stable_rate
from twoclocks.papers.recipe import RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings

START = {"adam": 0.1, "sgd": 0.3}  # where the search begins


@RECIPES.register("p2-rhm-optimizers")
class Optimizers(Recipe):
    """D3PM on the grammar (24, 12, 3, 3), 2,048 strings; the learning rates are searched for before the runs."""

    claim: ClassVar[str] = "B6 (optimizer, RHM)"
    paper: ClassVar[str] = "Adam and SGD at their largest stable rates memorize after about the same number of steps"
    criterion: ClassVar[str] = "τ_mem of both within a factor of 2"
    steps: ClassVar[Mapping[str, int]] = {"adam": 40_000, "sgd": 60_000}
    change: ClassVar[Mapping[str, Any]] = {}
    preset: ClassVar[str] = "p2-rhm-optimizers"
    trial_steps: ClassVar[int] = 2000  # of the search

    def settings(self, device: str) -> dict[str, RunSettings]:
        runs = {}
        for name, steps in self.steps.items():
            chosen = {"training.optimizer": name, "training.learning_rate": START[name]}
            runs[f"rhm-{name}"] = grammar_run(self.preset, device, steps, **{**self.change, **chosen})
        return runs

    def prepared(self, settings: RunSettings) -> RunSettings:
        found = largest_stable_rate(settings, steps=self.trial_steps, seeds=1, factor=1.5)
        return replace(settings, training=replace(settings.training, learning_rate=found.largest))

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        memory = {label: one.clocks().memory for label, one in runs.items()}
        rates = {label: one.settings.training.learning_rate for label, one in runs.items()}
        words = ", ".join(f"{label} at rate {rates[label]:.3g}: τ_mem {onset}" for label, onset in memory.items())
        values: dict[str, Any] = {
            label: {"rate": rates[label], "tau_mem": onset.as_json()} for label, onset in memory.items()
        }
        if len(runs) < 2 or not any(one.seen for one in memory.values()):
            return Measurement("unfinished", words, values)
        first, second = sorted(memory.values(), key=lambda one: one.upper)
        near = second.seen and second.upper <= 2 * first.upper
        far = second.lower > 2 * first.upper
        verdict: Verdict = "reproduced" if near else "not reproduced" if far else "unfinished"
        return Measurement(verdict, f"{words} (1 seed)", values)


@RECIPES.register("p2-rhm-optimizers-small")
class SmallOptimizers(Optimizers):
    """A smaller form for a CPU: the grammar (16, 4, 3, 2), 256 strings, width 128."""

    steps: ClassVar[Mapping[str, int]] = {"adam": 12_000, "sgd": 30_000}
    change: ClassVar[Mapping[str, Any]] = {
        "data.n": 256,
        "model.width": 128,
        "training.precision": "float32",
        "objective.sampler_levels": 50,
    }
    preset: ClassVar[str] = "p2-rhm-l3"
    trial_steps: ClassVar[int] = 1000
