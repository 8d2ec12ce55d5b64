"""A1: in one diffusion run the model learns the cube, then the rule, then the training set (P1 Fig. 2B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from twoclocks.clocks import onset
from twoclocks.evaluation import Invalid, SampleAccuracy
from twoclocks.papers.recipe import AS_PRINTED, LEAN, RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings, load_settings

STEPS = 30_000


@RECIPES.register("p1-order")
class Order(Recipe):
    """DiT-mini, 36 bits in groups of 3, at the size N = 256 at which memory comes early."""

    claim: ClassVar[str] = "A1"
    paper: ClassVar[str] = "one DiT run: cube, then rule, then memory, with a dip of rule accuracy at τ_mem"
    criterion: ClassVar[str] = "three onsets in this order, and rule accuracy falls by at least 1 point after τ_mem"

    def settings(self, device: str) -> dict[str, RunSettings]:
        change = {
            "data": {"n": 256},
            "clocks": AS_PRINTED,
            "training": {"steps": STEPS, "device": device},
            "evaluation": {"evaluations": 45, "first": 30, **LEAN},
        }
        return {"dit-mini-g3-n256": load_settings("p1-dit-mini", change)}

    def measure(self, runs: Mapping[str, Run]) -> Measurement:
        (run,) = runs.values()
        columns, series, clocks = run.metrics(), run.series(), run.clocks()
        on_cube = np.asarray(series.trials) - np.asarray(run.hits(Invalid.column(0.5)))
        cube = onset(series.steps, on_cube, series.trials, threshold=0.9, sustain=3)
        valid = columns[SampleAccuracy.name]
        late = columns["step"] >= clocks.memory.upper
        before, after = valid[~late], valid[late]
        dip = float(before.max() - after.min()) if len(after) and len(before) else float("nan")
        ordered = cube.upper <= clocks.rule.lower and clocks.verdict == "open" and clocks.memory.status == "observed"
        ended = clocks.memory.status == "observed" or run.status["status"] == "finished"
        verdict: Verdict = "unfinished" if not ended else "reproduced" if ordered and dip >= 0.01 else "not reproduced"
        sentence = f"cube {cube}, τ_rule {clocks.rule}, τ_mem {clocks.memory}; dip {dip:.1%} (N=256, 1 seed)"
        values = {"cube": cube.as_json(), **clocks.as_json(), "dip": None if dip != dip else dip}
        return Measurement(verdict, sentence, values)
