"""Does τ_mem scale with steps or with samples seen, steps·batch/N? Tested by the batch size, for deep models.

τ ∝ batch^power at fixed N and learning rate: −1 is P1's time steps·batch/N, which P1 shows for runs of one batch; 0 is
what P2 shows for one hidden layer at fixed σ. The papers contradict each other only if both are read as general laws.
All runs have N ≥ batch. The rules are easy, so that they can be learned before τ_mem; ``batch_law`` leaves out runs in
which they are not.
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

    paper: ClassVar[str] = (
        "P1: τ_mem follows steps·batch/N (shown at fixed batch); P2: for one hidden layer at fixed σ, τ_mem does not "
        "depend on the batch"
    )
    criterion: ClassVar[str] = (
        "95% interval of the power of the batch, over runs with N ≥ batch and the rule learned before τ_mem: samples "
        "seen where it lies within −1.25 to −0.75, steps within −0.25 to 0.25; elsewhere undecided if it contains "
        "−1 or 0, neither if not"
    )
    steps: ClassVar[dict[int, int]]

    def measure_claim(self, runs: Mapping[str, Run]) -> Measurement:
        onsets = {one.settings.training.batch: one.clocks().memory for one in runs.values()}
        words = ", ".join(f"batch {batch}: {onset}" for batch, onset in onsets.items())
        try:
            law = batch_law(list(runs.values()))
        except UserError as error:
            return Measurement("unfinished", f"{words}; {error}", {})
        # Reproduced if one of the two times is right here; "neither" supports none of them.
        verdicts: dict[str, Verdict] = {"neither": "not reproduced", "undecided": "unfinished"}
        verdict = verdicts.get(law.answer, "reproduced")
        if len(runs) < len(self.steps):
            verdict = "unfinished"
        return Measurement(verdict, f"{law.sentence()}; {words} (1 seed)", law.as_json())


@RECIPES.register("p2-dispute-rhm")
class GrammarDispute(Dispute):
    """D3PM on the grammar (16, 2, 4, 2), 1,024 strings: twice the P* = 512 that its deepest rules need.

    P2's grammar (16, 4, 3, 2) has P* = 4,096; with fewer strings, samples are valid only as copies.
    """

    claim: ClassVar[str] = "A8 against B6 (RHM)"

    steps: ClassVar[dict[int, int]] = {32: 60_000, 64: 40_000, 128: 26_000, 256: 18_000, 512: 12_000}

    def settings(self, device: str) -> dict[str, RunSettings]:
        grammar = {"rule.synonyms": 2, "rule.depth": 4, "data.n": 1024}
        return {
            f"rhm-m2-n1024-b{batch}": grammar_run("p2-rhm-l3", device, steps, **{**grammar, "training.batch": batch})
            for batch, steps in self.steps.items()
        }


@RECIPES.register("p2-dispute-dit")
class DiTDispute(Dispute):
    """DiT-mini on 36 bits in groups of 2, 256 samples: the rule is learned early, and N is no less than the batch."""

    claim: ClassVar[str] = "A8 against B6 (DiT)"

    steps: ClassVar[dict[int, int]] = {32: 200_000, 64: 120_000, 128: 70_000, 256: 45_000}

    def settings(self, device: str) -> dict[str, RunSettings]:
        return parity_runs("p1-dit-mini", device, 2, 256, self.steps)


@RECIPES.register("p2-dispute-gpt")
class GPTDispute(Dispute):
    """GPT-nano on 36 bits in groups of 3, 512 samples."""

    claim: ClassVar[str] = "A8 against B6 (GPT)"

    steps: ClassVar[dict[int, int]] = {16: 8_000, 32: 6_000, 64: 4_000, 128: 3_000, 256: 2_000}

    def settings(self, device: str) -> dict[str, RunSettings]:
        return parity_runs("p1-gpt-nano", device, 3, 512, self.steps)


def parity_runs(preset: str, device: str, group: int, n: int, steps: Mapping[int, int]) -> dict[str, RunSettings]:
    """Settings of one run per batch size, by label."""
    evaluation = {"evaluations": 80, "first": 30, **NO_WEIGHTS}
    return {
        f"{preset.removeprefix('p1-')}-n{n}-b{batch}": load_settings(
            preset,
            {
                "rule.group": group,
                "data.n": n,
                "clocks": AS_PRINTED,
                "training": {"steps": length, "batch": batch, "device": device},
                "evaluation": evaluation,
            },
        )
        for batch, length in steps.items()
    }
