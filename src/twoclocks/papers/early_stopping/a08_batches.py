"""Claim A8 over batches: does P1's time steps·batch/N hold when the batch changes and N does not?"""

from __future__ import annotations

from typing import Any, ClassVar

from twoclocks.analysis.batches import AROUND, BatchLaw
from twoclocks.analysis.batches import Answer as Law
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, not_run
from twoclocks.papers.early_stopping.batch_runs import DIT_PAIRS, GPT_TRIPLES, GRAMMAR, BatchSweep
from twoclocks.papers.records import Records

ANSWERS: dict[Law, Answer] = {"samples": "yes", "steps": "no", "neither": "no", "undecided": "undecided"}


class SamplesSeen(Claim):
    """A sweep over the batch of one model, whose power of the batch is −1, 0 or something else."""

    id: ClassVar[str] = "A8"
    title: ClassVar[str] = "τ_mem follows steps·batch/N when the batch changes"
    paper: ClassVar[str] = (
        "P1 draws τ_mem on steps·batch/N, at one batch; P2: for one hidden layer at fixed σ the batch does not matter"
    )
    criterion: ClassVar[str] = (
        "τ_mem ∝ batch^power over runs with N ≥ batch and the rule learned before τ_mem: reproduced where the 95% "
        f"interval of the power lies within −1 ± {AROUND} (samples seen); refuted where it lies within ±{AROUND} "
        "(steps) or outside of both (neither); a batch without a fair run leaves it open"
    )
    figures: ClassVar[tuple[str, ...]] = ("batches",)
    sweep: ClassVar[BatchSweep]

    def judge(self, records: Records) -> Judgement:
        runs = self.sweep.runs(records)
        law, missing = self.sweep.law(runs), missing_batches(self.sweep, runs)
        if isinstance(law, str):
            there = runs.by("training.batch")
            if lacking := [one for one in missing if one not in there]:
                return not_run(
                    f"{self.sweep.title(records.scale)} at batches {', '.join(f'{one:,}' for one in lacking)}"
                )
            return Judgement.of("undecided", law, runs.seeds, {})
        answer = ANSWERS[law.answer]
        measured, values = f"{law.sentence()}; {onset_words(law)}", dict[str, Any](law.as_json())
        if missing:
            answer = "undecided"
            measured += f". Without a fair run: batch {', '.join(f'{one:,}' for one in missing)}"
        return Judgement.of(answer, measured, self.sweep.seeds(runs), values)


def missing_batches(sweep: BatchSweep, runs: Records) -> list[int]:
    """The planned batches that no fair run has.

    Runs that copy before they learn the rule are left out, and these are the ones with an early τ_mem: a law of the
    others alone would be the law of what was chosen.
    """
    there = sweep.fair(runs).by("training.batch")
    return [batch for batch in sweep.batches(runs.scale) if batch not in there]


def onset_words(law: BatchLaw) -> str:
    """τ_mem of every seed by batch."""
    return "; ".join(f"batch {batch:,}: {', '.join(map(str, same))}" for batch, same in law.by_batch.items())


@CLAIMS.register("A8-batches-rhm")
class GrammarBatches(SamplesSeen):
    """D3PM on the grammar (16, 2, 4, 2)."""

    grids: ClassVar[tuple[str, ...]] = ("batches-rhm",)
    sweep: ClassVar[BatchSweep] = GRAMMAR


@CLAIMS.register("A8-batches-dit")
class DiTBatches(SamplesSeen):
    """DiT-mini on pairs of bits."""

    grids: ClassVar[tuple[str, ...]] = ("batches-dit",)
    sweep: ClassVar[BatchSweep] = DIT_PAIRS


@CLAIMS.register("A8-batches-gpt")
class GPTBatches(SamplesSeen):
    """GPT-nano on triples of bits."""

    grids: ClassVar[tuple[str, ...]] = ("batches-gpt",)
    sweep: ClassVar[BatchSweep] = GPT_TRIPLES
