"""P2's claims on the Random Hierarchy Model (RHM): B1, B2, B7 (Fig. 4), B3 on layers (Fig. 5a), B5 on rules (Fig. 14).

The runs have width 512 instead of 8,192, and a batch of 128 instead of 32: in μP the best learning rate does not depend
on the width, and four runs then take minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from twoclocks.clocks import fit_law
from twoclocks.clocks.window import Clocks
from twoclocks.core.errors import UserError
from twoclocks.dissection import dissect_run
from twoclocks.dissection.execution import choose_views
from twoclocks.dissection.views.productions import ProductionsInfo
from twoclocks.papers.recipe import AS_PRINTED, NO_WEIGHTS, RECIPES, Measurement, Recipe, Verdict
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.runs import Run, RunSettings, load_settings

STEPS = {256: 6_000, 1024: 28_000, 4096: 140_000, 16384: 210_000}
DEEP_STEPS = 60_000
GAP = 0.3  # nats per token; losses of different rows differ by about 0.1 nats by chance
REDUCED: dict[str, Any] = {
    "model.width": 512,
    "training.batch": 128,
    "training.learning_rate": 0.05,
    "training.precision": "tf32",
    "objective.sampler_levels": 250,
}


def grammar_run(preset: str, device: str, steps: int, **more: Any) -> RunSettings:
    """Settings of a run of reduced width, with the paper's definition of the clocks."""
    evaluation = {
        "samples": 1024,
        "evaluations": 40,
        "first": 50,
        "loss_rows": 2048,
        **NO_WEIGHTS,
        **more.pop("evaluation", {}),
    }
    shared = {"training.steps": steps, "training.device": device, "clocks": AS_PRINTED, "evaluation": evaluation}
    return load_settings(preset, {**REDUCED, **shared, **more})


def clocks_of(run: Run) -> Clocks:
    """The clocks of a run with a memory threshold above chance, which is 6% at the largest size."""
    chosen = replace(run.settings.clocks, gap_threshold=GAP, above_chance=True)
    return chosen.read(run.series(), run.copy_chance, changes=False)


def sized_run(device: str, n: int, part: int = 0) -> RunSettings:
    """Settings of a run on the grammar (16, 4, 3, 2) with n strings."""
    change = {"data.n": n, "data.part": part}
    return grammar_run("p2-rhm-l3", device, STEPS[n], evaluation={"keep_weights": 16}, **change)


@RECIPES.register("p2-rhm-sizes")
class Sizes(Recipe):
    """D3PM on the grammar (16, 4, 3, 2) at four sizes."""

    claim: ClassVar[str] = "B1, B2, B7 (RHM)"
    paper: ClassVar[str] = "P < 4,096: valid only by copying; P ≥ 4,096: valid before copying; τ_mem ∝ P"
    criterion: ClassVar[str] = (
        "the window is empty below P* = 4,096 and open from there; 95% interval of τ_mem's exponent within 0.7 to 1.3"
    )

    def settings(self, device: str) -> dict[str, RunSettings]:
        return {f"rhm-l3-n{n}": sized_run(device, n) for n in STEPS}

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        clocks = {one.settings.data.n: clocks_of(one) for one in runs.values()}
        lines = [
            f"P={n:,}: τ_rule {one.rule}, τ_mem {one.memory}, loss gap {GAP} {one.gap}, window {one}"
            for n, one in clocks.items()
        ]
        values: dict[str, Any] = {str(n): one.as_json() for n, one in clocks.items()}
        try:
            law = fit_law(list(clocks), [one.memory for one in clocks.values()])
        except UserError as error:
            return Measurement("unfinished", f"{'; '.join(lines)}; {error}", values)
        low, high = law.alpha_ci
        values["law"] = law.as_json()
        rule = next(iter(runs.values())).settings.rule
        assert isinstance(rule, RandomHierarchy)
        enough = rule.sample_complexity(rule.depth)
        windows = all(one.verdict == ("open" if n >= enough else "empty") for n, one in clocks.items())
        linear = low >= 0.7 and high <= 1.3
        verdict: Verdict = (
            "unfinished" if len(runs) < len(STEPS) else "reproduced" if windows and linear else "not reproduced"
        )
        fit = f"τ_mem = {law.a:.3g}·P^{law.alpha:.2f} (95%: {low:.2f} to {high:.2f})"
        return Measurement(verdict, f"{fit}; {'; '.join(lines)} (1 seed)", values)


@RECIPES.register("p2-rhm-productions")
class Productions(Recipe):
    """The rules that an early-stopped model uses, of the largest run of ``p2-rhm-sizes``."""

    claim: ClassVar[str] = "B5"
    paper: ClassVar[str] = "P = 16,384, early-stopped: all production rules are used uniformly and independently"
    criterion: ClassVar[str] = (
        "at the last evaluation before τ_mem, usage of every layer's rules and covariances between them within "
        "sampling noise (1% of true samples would fail)"
    )

    def settings(self, device: str) -> dict[str, RunSettings]:
        label = "rhm-l3-n16384"
        return {label: Sizes().settings(device)[label]}

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        (one,) = runs.values()
        found = dissect_run(one, choose_views(["productions"], {})).infos["productions"]
        assert isinstance(found, ProductionsInfo)
        early = found.fits[found.early]
        if not early.tested:
            return Measurement("unfinished", " ".join(found.sentences()), {"early": early.as_json()})
        good = not early.usage_deviates and not early.pairs_deviate
        verdict: Verdict = "reproduced" if good else "not reproduced"
        return Measurement(verdict, " ".join(found.sentences()), {"early": early.as_json()})


@RECIPES.register("p2-rhm-layers")
class Layers(Recipe):
    """D3PM on the deep grammar (16, 3, 5, 2) with fewer strings than its deepest rules need."""

    claim: ClassVar[str] = "B3"
    paper: ClassVar[str] = "(16, 3, 5, 2), P = 1,024: layers are learned in order, the deepest only by copying"
    criterion: ClassVar[str] = (
        "onsets of valid nodes in the order of the layers, two of them or more before τ_mem, layer 5 not before"
    )

    def settings(self, device: str) -> dict[str, RunSettings]:
        # A deeper grammar needs a smaller rate: at 0.05, layers that were learned are lost again.
        return {"rhm-l5": grammar_run("p2-rhm-l5", device, DEEP_STEPS, **{"training.learning_rate": 0.02})}

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        (one,) = runs.values()
        clocks = clocks_of(one)
        layers = list(clocks.parts.values())  # from the leaves up
        ordered = all(a.upper <= b.upper for a, b in pairwise(layers))
        first = sum(layer.seen and layer.upper <= clocks.copy_free_until for layer in layers) >= 2
        last = layers[-1].upper >= clocks.memory.lower
        words = ", ".join(f"layer {level} {onset}" for level, onset in enumerate(layers, start=1))
        good = ordered and first and last and clocks.memory.seen
        ended = clocks.memory.seen
        verdict: Verdict = "reproduced" if good else "not reproduced" if ended else "unfinished"
        return Measurement(verdict, f"{words}; τ_mem {clocks.memory} (1 seed)", clocks.as_json())
