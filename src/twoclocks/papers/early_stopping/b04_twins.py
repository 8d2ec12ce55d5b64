"""Claim B4: two models on disjoint data agree until the losses part (P2 §4.4, Fig. 5b; §3.1, Fig. 2)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from twoclocks.clocks.onset import Onset
from twoclocks.papers.as_printed import PRINTED, printed_clocks, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import VARIED
from twoclocks.papers.early_stopping.runs import DEEP, DEEP_SIZE, WIDTH
from twoclocks.papers.early_stopping.runs_parity import NANO, PAIRS, TWIN_SIZE
from twoclocks.papers.intervals import is_earlier
from twoclocks.papers.records import Record, Records
from twoclocks.papers.twins import twins_of

GAP = 0.1  # nats per token by which the held-out loss exceeds the training loss
NEAR = 0.5  # of the way from chance to the same model: from there on two models agree
GAP_OF_IMAGES = 0.05  # the same for the loss of EDM, which begins at 1: the default of clocks.gap_threshold
Measure = Literal["hellinger", "samples"]


@dataclass(frozen=True)
class Pair:
    """Two runs on disjoint data: how near they come, when they part, and when the first of them begins to copy."""

    record: Record
    parting: Onset | None  # None: it could not be read
    reference: int  # the last of the evaluations at which they are closest, from which the parting is read
    nearness: float  # there: 1 where both models are the same, 0 where they agree no more than by chance
    losses: Onset | None  # of both runs: from the first that begins to part to the last that has
    memory: Onset  # of the run that copies first

    def answer(self) -> Answer:
        """Whether the models agree, and part after the losses do.

        undecided: both orders are possible, one never parted, or the two models were closest when one had begun to
        copy, so that the parting is read from a wrong level.
        """
        if self.nearness < NEAR:
            return "no"
        if self.losses is None or self.parting is None or not self.parting.seen:
            return "undecided"
        return "undecided" if self.reference > self.memory.lower else is_earlier(self.losses, self.parting)


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
            words.append(
                f"{name}: {what} agree to {one.nearness:.0%} (same models: 100%, chance: 0%) and part "
                f"{one.parting or 'not readably'}, losses {one.losses}, τ_mem by copies {one.memory}"
            )
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
        "the outputs of the two models come nearer than half of the distance by chance, and part, with 95% confidence, "
        "not before τ_mem as P2 reads it: in both runs the held-out loss exceeds the training loss by 0.1 nats per "
        "token (the clock of copies is told beside it)"
    )
    revised: ClassVar[str] = (
        "a parting decides only if the models were closest before either had 10% copies, they must have come near at "
        "all, and the losses of both runs count; this changed no verdict"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig5",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-deep",)
    measure: ClassVar[Measure] = "hellinger"
    gap: ClassVar[float] = GAP
    what: ClassVar[str] = "the grammar (16, 3, 5, 2)"

    def first_runs(self, records: Records) -> Records:
        width = records.scale.width or WIDTH
        return stable(records.baseline(DEEP, VARIED, data__n=records.scale.sizes((DEEP_SIZE,)), model__width=width))


@CLAIMS.register("B4-parity")
class SamplesAgreeUntilMemory(TwinsAgree):
    """Twins on 36 bits in pairs, 64 samples each."""

    title: ClassVar[str] = "Samples of two models on disjoint data agree until τ_mem"
    paper: ClassVar[str] = "images: samples from the same noise have a high cosine until τ_mem (here: pairs of bits)"
    criterion: ClassVar[str] = (
        "the samples of the two models from the same noise come nearer than half of the distance by chance "
        "(1 − cosine), and part, with 95% confidence, not before τ_mem as P2 reads it: in both runs the held-out "
        "loss, which begins at 1, exceeds the training loss by 0.05 (the clock of copies is told beside it)"
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
    if distances is None:
        return None
    both = [record, *twin_in(record, records)]
    parting = distances["parting"]
    return Pair(
        record=record,
        parting=None if parting is None else Onset.from_json(parting),
        reference=distances["closest"][-1] if distances.get("closest") else 0,
        nearness=nearness_of(distances),
        losses=hull_of([losses_part(one, gap) for one in both]),
        memory=min((printed_clocks(one).memory for one in both), key=lambda one: one.lower),
    )


def nearness_of(distances: Mapping[str, Any]) -> float:
    """How near two models are where they are closest: 1 where they are the same, 0 where it is no more than chance."""
    mean, chance = (np.asarray(distances[key], dtype=np.float64) for key in ("mean", "chance"))
    chosen = np.isin(distances["steps"], distances.get("closest") or distances["steps"])
    return float((1 - mean / chance)[chosen].mean())


def hull_of(onsets: Sequence[Onset | None]) -> Onset | None:
    """From the first onset that may have come to the last that must have; None where one was not measured."""
    found = [one for one in onsets if one is not None]
    if len(found) < len(onsets):
        return None
    last = max(found, key=lambda one: one.upper)
    return replace(last, lower=min(one.lower for one in found))


def twin_in(record: Record, records: Records) -> Records:
    """The run on the other part of the data, if its rows are there."""
    seeds = {"training__seed": record.seed, "data__seed": record.value("data.seed")}
    return records.alike(record.settings, ("data.part",)).where(data__part=1 - record.value("data.part"), **seeds)


def losses_part(record: Record, gap: float = GAP) -> Onset | None:
    """When held-out and training loss part, as P2 reads τ_mem."""
    series = record.run.series()
    settings = replace(PRINTED, gap_threshold=gap, sustain=min(PRINTED.sustain, len(series.steps)))
    return settings.gap_onset(series)
