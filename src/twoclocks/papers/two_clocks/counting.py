"""Claim A17: counting rules are learned as fast as the parity of pairs, for any count (P1 Fig. 21)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.papers.recipe import AS_PRINTED, NO_WEIGHTS, RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings, load_settings

STEPS, SAMPLES, FACTOR = 3_400, 1_024, 2.0
REFERENCE, FIXED, VARIABLE = "parity-g2", "row-k3", "row-variable-k23"
RULES: dict[str, dict[str, Any]] = {
    REFERENCE: {"name": "parity", "length": 36, "group": 2},
    "exact-k6": {"name": "exact_k", "length": 36, "k": 6},
    "exact-k18": {"name": "exact_k", "length": 36, "k": 18},
    "row-k1": {"name": "row_k", "side": 6, "k": 1},
    FIXED: {"name": "row_k", "side": 6, "k": 3},
    VARIABLE: {"name": "row_variable_k", "side": 6, "ks": [2, 3]},
}


@RECIPES.register("p1-counting")
class Counting(Recipe):
    """DiT-mini on six binary rules of 36 bits, with 1,024 training samples each."""

    claim: ClassVar[str] = "A17"
    paper: ClassVar[str] = "exact-K and row-K learn as fast as parity with G=2, whatever K; variable K slightly later"
    criterion: ClassVar[str] = (
        "τ_rule of every exact-K and row-K run at most twice that of G=2; variable K later than row-K with K=3"
    )

    def settings(self, device: str) -> dict[str, RunSettings]:
        shared = {
            "data": {"n": SAMPLES},
            "clocks": AS_PRINTED,
            "training": {"steps": STEPS, "device": device},
            "evaluation": {"evaluations": 26, "first": 50, "samples": 1_024, **NO_WEIGHTS},
        }
        return {label: load_settings("p1-dit-mini", {**shared, "rule": rule}) for label, rule in RULES.items()}

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        onsets = {label: run.clocks().rule for label, run in runs.items()}
        sentence = "τ_rule: " + ", ".join(f"{label} {onset}" for label, onset in onsets.items())
        values = {label: onset.as_json() for label, onset in onsets.items()}
        found = {label: onset.estimate for label, onset in onsets.items()}
        if set(found) < set(RULES):
            return Measurement("unfinished", sentence, values)
        reference, fixed, variable = found[REFERENCE], found[FIXED], found[VARIABLE]
        fast = reference is not None and all(
            (estimate := found[label]) is not None and estimate <= FACTOR * reference
            for label in found
            if label.startswith(("exact", "row-k"))
        )
        later = fixed is not None and variable is not None and variable > fixed
        verdict: Verdict = "reproduced" if fast and later else "not reproduced"
        return Measurement(verdict, f"{sentence} (N={SAMPLES:,}, 1 seed)", values)
