"""Claim B4: two models on disjoint data agree until the losses part (P2 §4.4, Fig. 5b; §3.1, Fig. 2)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from twoclocks.clocks.onset import Onset
from twoclocks.papers.as_printed import PRINTED, printed_clocks, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import VARIED
from twoclocks.papers.early_stopping.runs import DEEP, DEEP_SIZE
from twoclocks.papers.early_stopping.runs_parity import NANO, PAIRS, TWIN_SIZE
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Record, Records
from twoclocks.papers.twins import twins_of

GAP = 0.1  # nats per token by which the held-out loss exceeds the training loss
GAP_OF_IMAGES = 0.05  # the same for the loss of EDM, which begins at 1: the default of clocks.gap_threshold
Measure = Literal["hellinger", "samples"]


@dataclass(frozen=True)
class Pair:
    """Two runs on disjoint data: when they part, and when the first of them begins to copy."""

    record: Record
    parting: Onset
    reference: int  # the last of the evaluations at which they are closest, from which the parting is read
    losses: Onset | None
    memory: Onset  # of the run that copies first

    def answer(self) -> Answer:
        """Whether the models part after the losses do.

        undecided: both orders are possible, one never parted, or the two models were closest when one had begun to
        copy, so that the parting is read from a wrong level.
        """
        if self.losses is None or not self.parting.seen or self.reference > self.memory.lower:
            return "undecided"
        return is_earlier(self.losses, self.parting)


class TwinsAgree(Claim):
    """Two models on disjoint data; ``measure`` is what is compared."""

    id: ClassVar[str] = "B4"
    measure: ClassVar[Measure]
    gap: ClassVar[float]
    what: ClassVar[str]

    @abstractmethod
    def first_runs(self, records: Records) -> Records:
        """The first of each pair of twins."""

    def judge(self, records: Records) -> Judgement:
        runs = self.first_runs(records).having(lambda one: twins_of(one) is not None)
        pairs = [pair for one in runs if (pair := pair_of(one, records, self.measure, self.gap)) is not None]
        if not pairs:
            return not_run(f"two runs on disjoint parts of {self.what}, compared while they train")
        words, values = [], dict[str, Any]()
        for one in pairs:
            name = one.record.seed_words
            what = "outputs" if self.measure == "hellinger" else "samples"
            words.append(f"{name}: {what} part {one.parting}, losses {one.losses}, τ_mem by copies {one.memory}")
            onsets = {"parting": one.parting, "losses": one.losses, "copies": one.memory}
            values[name] = {key: None if found is None else found.as_json() for key, found in onsets.items()}
            if one.reference > one.memory.lower:
                words[-1] += f" (closest only at step {one.reference:,}, so the parting says nothing)"
        seeds = Records(one.record for one in pairs).seeds
        answer = agreed(one.answer() for one in pairs)
        return Judgement(verdict_of(answer, seeds), "; ".join(words), seeds, values)


@CLAIMS.register("B4")
class AgreeUntilMemory(TwinsAgree):
    """Twins on the grammar (16, 3, 5, 2), 1,024 strings each."""

    title: ClassVar[str] = "Two models on disjoint data agree until τ_mem"
    paper: ClassVar[str] = "(16, 3, 5, 2): the Hellinger distance of two models' outputs is small until τ_mem"
    criterion: ClassVar[str] = (
        "the outputs of the two models come to part, with 95% confidence, and not before τ_mem as P2 reads it: the "
        "held-out loss exceeds the training loss by 0.1 nats per token (the clock of copies is told beside it)"
    )
    revised: ClassVar[str] = (
        "a parting decides only if the models were closest before either had 10% copies; this changed no verdict"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig5",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-deep",)
    measure: ClassVar[Measure] = "hellinger"
    gap: ClassVar[float] = GAP
    what: ClassVar[str] = "the grammar (16, 3, 5, 2)"

    def first_runs(self, records: Records) -> Records:
        return stable(records.baseline(DEEP, VARIED, data__n=records.scale.sizes((DEEP_SIZE,))))


@CLAIMS.register("B4-parity")
class SamplesAgreeUntilMemory(TwinsAgree):
    """Twins on 36 bits in pairs, 64 samples each."""

    title: ClassVar[str] = "Samples of two models on disjoint data agree until τ_mem"
    paper: ClassVar[str] = "images: samples from the same noise have a high cosine until τ_mem (here: pairs of bits)"
    criterion: ClassVar[str] = (
        "the samples of the two models from the same noise come to part, with 95% confidence of the cosine, and not "
        "before τ_mem as P2 reads it: the held-out loss, which begins at 1, exceeds the training loss by 0.05 (the "
        "clock of copies is told beside it)"
    )
    grids: ClassVar[tuple[str, ...]] = ("twins-parity",)
    measure: ClassVar[Measure] = "samples"
    gap: ClassVar[float] = GAP_OF_IMAGES
    what: ClassVar[str] = "36 bits in pairs"

    def first_runs(self, records: Records) -> Records:
        sizes = records.scale.copied_sizes((TWIN_SIZE,))
        return stable(records.baseline(NANO, rule__group=PAIRS, data__n=sizes))


def pair_of(record: Record, records: Records, measure: Measure, gap: float) -> Pair | None:
    """A run and its twin; None where they were not compared."""
    found = twins_of(record)
    distances = None if found is None else found[measure]
    if distances is None or distances["parting"] is None:
        return None
    both = [printed_clocks(one).memory for one in (record, *twin_in(record, records))]
    return Pair(
        record=record,
        parting=Onset.from_json(distances["parting"]),
        reference=distances["closest"][-1],
        losses=losses_part(record, gap),
        memory=min(both, key=lambda one: one.lower),
    )


def twin_in(record: Record, records: Records) -> Records:
    """The run on the other part of the data, if its rows are there."""
    seeds = {"training__seed": record.seed, "data__seed": record.value("data.seed")}
    return records.alike(record.settings, ("data.part",)).where(data__part=1 - record.value("data.part"), **seeds)


def losses_part(record: Record, gap: float = GAP) -> Onset | None:
    """When held-out and training loss part, as P2 reads τ_mem."""
    series = record.run.series()
    settings = replace(PRINTED, gap_threshold=gap, sustain=min(PRINTED.sustain, len(series.steps)))
    return settings.gap_onset(series)
