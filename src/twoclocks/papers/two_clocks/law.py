"""Claim A6 for the autoregressive model: τ_mem = a·N^α with α near 1 (P1 Table 4, GPT-mini)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from twoclocks.clocks import fit_law
from twoclocks.core.errors import UserError
from twoclocks.papers.recipe import AS_PRINTED, NO_WEIGHTS, RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings, load_settings

SIZES = (256, 512, 1024, 2048)
PAPER_A, PAPER_ALPHA = 1.1, 1.02  # the paper's fit for G = 3


@RECIPES.register("p1-gpt-law")
class GPTLaw(Recipe):
    """GPT-mini, 36 bits in groups of 3, batch 128, four sizes."""

    claim: ClassVar[str] = "A6 (GPT-mini, G=3)"
    paper: ClassVar[str] = "τ_mem = 1.1·N^1.02"
    criterion: ClassVar[str] = "α's 95% interval within ±0.15 of the paper's, a·N^α within ×1.5 at each N"

    def settings(self, device: str) -> dict[str, RunSettings]:
        runs = {}
        for n in SIZES:
            steps = round(3.5 * PAPER_A * n**PAPER_ALPHA)
            change = {
                "data": {"n": n},
                "clocks": AS_PRINTED,
                "training": {"steps": steps, "device": device},
                "evaluation": {"evaluations": 60, "first": 20, **NO_WEIGHTS},
            }
            runs[f"gpt-mini-g3-n{n}"] = load_settings("p1-gpt-mini", change)
        return runs

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        sizes = [run.settings.data.n for run in runs.values()]
        onsets = [run.clocks().memory for run in runs.values()]
        try:
            law = fit_law(sizes, onsets)
        except UserError as error:
            return Measurement("unfinished", str(error), {})
        ratios = {n: law.predict(n) / (PAPER_A * n**PAPER_ALPHA) for n in sizes}
        inside = all(abs(edge - PAPER_ALPHA) <= 0.15 for edge in law.alpha_ci)
        close = all(1 / 1.5 <= ratio <= 1.5 for ratio in ratios.values())
        low, high = law.alpha_ci
        sentence = (
            f"τ_mem = {law.a:.2g}·N^{law.alpha:.2f}, 95% interval of α {low:.2f} to {high:.2f}; "
            f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f} times the paper's "
            f"(N {min(sizes)}–{max(sizes)}, 1 seed)"
        )
        values = {"a": law.a, "alpha": law.alpha, "alpha_ci": [low, high], "ratio_to_paper": ratios}
        verdict: Verdict = (
            "unfinished" if len(runs) < len(SIZES) else "reproduced" if inside and close else "not reproduced"
        )
        return Measurement(verdict, sentence, values)
