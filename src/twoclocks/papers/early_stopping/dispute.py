"""Where the papers disagree: does τ_mem scale with steps (P2) or with steps·batch/N (P1)? Tested by the batch size.

τ ∝ batch^power at fixed N and learning rate: power 0 is P2's answer, −1 is P1's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from twoclocks.analysis.batches import batch_law
from twoclocks.core.errors import UserError
from twoclocks.papers.early_stopping.grammar import grammar_run
from twoclocks.papers.recipe import AS_PRINTED, NO_WEIGHTS, RECIPES, Measurement, Recipe, Verdict
from twoclocks.runs import Run, RunSettings, load_settings


class Dispute(Recipe):
    """Runs that differ only in their batch size; ``steps`` gives the number of steps for each batch size."""

    paper: ClassVar[str] = "P1: τ_mem follows steps·batch/N; P2: τ_mem does not depend on the batch"
    criterion: ClassVar[str] = (
        "95% interval of the power of the batch: P1's answer where it lies within −1.25 to −0.75, P2's within "
        "−0.25 to 0.25, neither elsewhere"
    )
    steps: ClassVar[dict[int, int]]

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        onsets = {one.settings.training.batch: one.clocks().memory for one in runs.values()}
        words = ", ".join(f"batch {batch}: {onset}" for batch, onset in onsets.items())
        try:
            law = batch_law(list(runs.values()))
        except UserError as error:
            return Measurement("unfinished", f"{words}; {error}", {})
        # The claim is reproduced if one of the papers is right; "neither" supports none of them.
        verdict: Verdict = "not reproduced" if law.answer == "neither" else "reproduced"
        if len(runs) < len(self.steps):
            verdict = "unfinished"
        return Measurement(verdict, f"{law.sentence()}; {words} (1 seed)", law.as_json())


@RECIPES.register("p2-dispute-rhm")
class GrammarDispute(Dispute):
    """D3PM on the grammar (16, 4, 3, 2), 256 strings."""

    claim: ClassVar[str] = "A8 against B6 (RHM)"

    steps: ClassVar[dict[int, int]] = {32: 16_000, 64: 10_000, 128: 7_000, 256: 5_000, 512: 4_000}

    def settings(self, device: str) -> dict[str, RunSettings]:
        return {
            f"rhm-b{batch}": grammar_run("p2-rhm-l3", device, steps, **{"data.n": 256, "training.batch": batch})
            for batch, steps in self.steps.items()
        }


@RECIPES.register("p2-dispute-dit")
class DiTDispute(Dispute):
    """DiT-nano on 36 bits in groups of 3, 64 samples."""

    claim: ClassVar[str] = "A8 against B6 (DiT)"

    steps: ClassVar[dict[int, int]] = {32: 110_000, 64: 70_000, 128: 45_000, 256: 28_000}

    def settings(self, device: str) -> dict[str, RunSettings]:
        return parity_runs("p1-dit-nano", device, 64, self.steps)


@RECIPES.register("p2-dispute-gpt")
class GPTDispute(Dispute):
    """GPT-nano on 36 bits in groups of 3, 512 samples."""

    claim: ClassVar[str] = "A8 against B6 (GPT)"

    steps: ClassVar[dict[int, int]] = {16: 8_000, 32: 6_000, 64: 4_000, 128: 3_000, 256: 2_000}

    def settings(self, device: str) -> dict[str, RunSettings]:
        return parity_runs("p1-gpt-nano", device, 512, self.steps)


def parity_runs(preset: str, device: str, n: int, steps: Mapping[int, int]) -> dict[str, RunSettings]:
    """Settings of one run per batch size, by label."""
    evaluation = {"evaluations": 45, "first": 30, **NO_WEIGHTS}
    return {
        f"{preset.removeprefix('p1-')}-n{n}-b{batch}": load_settings(
            preset,
            {
                "data.n": n,
                "clocks": AS_PRINTED,
                "training": {"steps": length, "batch": batch, "device": device},
                "evaluation": evaluation,
            },
        )
        for batch, length in steps.items()
    }
