"""Claim B4: two models on disjoint data agree until the losses part (P2 §4.4, Fig. 5b)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from twoclocks.clocks.onset import Onset
from twoclocks.papers.as_printed import PRINTED, printed_clocks, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import VARIED
from twoclocks.papers.early_stopping.runs import DEEP, DEEP_SIZE
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Record, Records
from twoclocks.papers.twins import twins_of

GAP = 0.1  # nats per token by which the held-out loss exceeds the training loss


@CLAIMS.register("B4")
class AgreeUntilMemory(Claim):
    """Twins on the grammar (16, 3, 5, 2), 1,024 strings each."""

    id: ClassVar[str] = "B4"
    title: ClassVar[str] = "Two models on disjoint data agree until τ_mem"
    paper: ClassVar[str] = "(16, 3, 5, 2): the Hellinger distance of two models' outputs is small until τ_mem"
    criterion: ClassVar[str] = (
        "the outputs of the two models come to part, with 95% confidence, and not before τ_mem as P2 reads it: the "
        "held-out loss exceeds the training loss by 0.1 nats per token (the clock of copies is told beside it)"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig5",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-deep",)

    def judge(self, records: Records) -> Judgement:
        compared = deep_runs(records).having(lambda one: parting_of(one) is not None)
        pairs = {one: found for one in compared if (found := parting_of(one)) is not None}
        if not pairs:
            return not_run("two runs on disjoint parts of the grammar (16, 3, 5, 2), compared while they train")
        words, values = [], dict[str, Any]()
        for one, parting in pairs.items():
            gap, memory = losses_part(one), printed_clocks(one).memory
            words.append(f"{one.seed_words}: outputs part {parting}, losses {gap}, τ_mem by copies {memory}")
            onsets = {"parting": parting, "losses": gap, "copies": memory}
            values[one.seed_words] = {name: None if o is None else o.as_json() for name, o in onsets.items()}
        seeds = Records(pairs).seeds
        answer = agreed(judge_parting(parting, losses_part(one)) for one, parting in pairs.items())
        return Judgement(verdict_of(answer, seeds), "; ".join(words), seeds, values)


def deep_runs(records: Records) -> Records:
    """The first of each pair of twins."""
    return stable(records.baseline(DEEP, VARIED, data__n=records.scale.sizes((DEEP_SIZE,))))


def parting_of(record: Record) -> Onset | None:
    """When the outputs of a run and its twin part; None where they were not compared."""
    found = twins_of(record)
    outputs = None if found is None else found["hellinger"]
    return None if outputs is None or outputs["parting"] is None else Onset.from_json(outputs["parting"])


def losses_part(record: Record) -> Onset | None:
    """When held-out and training loss part, as P2 reads τ_mem."""
    series = record.run.series()
    settings = replace(PRINTED, gap_threshold=GAP, sustain=min(PRINTED.sustain, len(series.steps)))
    return settings.gap_onset(series)


def judge_parting(parting: Onset, losses: Onset | None) -> Answer:
    """Whether outputs part after the losses do; undecided where both orders are possible, or one never parted."""
    return "undecided" if losses is None else is_earlier(losses, parting) if parting.seen else "undecided"
