"""Claim B4: models trained on disjoint data agree until they copy (P2 Figs. 3 and 5b), on a grammar and on parity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from twoclocks.analysis import compare_twins
from twoclocks.papers.early_stopping.grammar import sized_run
from twoclocks.papers.recipe import AS_PRINTED, NO_WEIGHTS, RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings, load_settings


class Twins(Recipe):
    """Two runs that differ only in their training data, part 0 and part 1."""

    claim: ClassVar[str] = "B4"
    criterion: ClassVar[str] = (
        "the models come to disagree, and not before the first of both τ_mem, at the intervals' confidence"
    )

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        if len(runs) < 2:
            return Measurement("unfinished", "one of two runs", {})
        first, second = runs.values()
        info = compare_twins(first, second)
        found = info.outputs if info.outputs is not None else info.samples
        memory = [one.memory for one in info.clocks if one is not None]
        parting = found.parting
        values: dict[str, Any] = info.numbers()
        sentence = " ".join(info.sample_sentences() if info.outputs is None else info.output_sentences(info.outputs))
        if parting is None or not all(one.seen for one in memory):
            return Measurement("unfinished", sentence, values)
        holds = parting.seen and parting.upper > min(one.lower for one in memory)
        verdict: Verdict = "reproduced" if holds else "not reproduced"
        return Measurement(verdict, f"{sentence} (1 seed)", values)


@RECIPES.register("p2-twins-rhm")
class GrammarTwins(Twins):
    """D3PM on the grammar (16, 4, 3, 2), 1,024 strings each; one of them is a run of ``p2-rhm-sizes``."""

    paper: ClassVar[str] = "RHM: the Hellinger distance of two models' outputs stays small until both memorize"

    def settings(self, device: str) -> dict[str, RunSettings]:
        labels = ("rhm-l3-n1024", "rhm-l3-n1024-twin")
        return {label: sized_run(device, 1024, part) for part, label in enumerate(labels)}


@RECIPES.register("p2-twins-parity")
class ParityTwins(Twins):
    """DiT-nano on 36 bits in groups of 2, 64 samples each."""

    paper: ClassVar[str] = "images: samples from the same noise agree (cosine) until both memorize"

    def settings(self, device: str) -> dict[str, RunSettings]:
        change = {
            "rule.group": 2,
            "data.n": 64,
            "clocks": AS_PRINTED,
            "training": {"steps": 14_000, "device": device},
            "evaluation": {"evaluations": 45, "first": 50, **NO_WEIGHTS},
        }
        return {
            f"dit-nano-g2-n64-part{part}": load_settings("p1-dit-nano", {**change, "data.part": part})
            for part in (0, 1)
        }
