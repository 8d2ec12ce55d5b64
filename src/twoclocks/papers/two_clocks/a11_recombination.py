"""Claim A11: new samples recombine groups of the training set; no new groups are made (P1 §3, Fig. 1C, Fig. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from twoclocks.clocks.onset import Onset, gap_onset
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UnknownNameError
from twoclocks.evaluation import PartAccuracy, SampleMemorization
from twoclocks.evaluation.pieces import PartMemorization
from twoclocks.papers.as_printed import PRINTED, printed_clocks, stable
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, agreed, all_of, not_run, verdict_of
from twoclocks.papers.records import Record, Records
from twoclocks.papers.seeds import fewest
from twoclocks.papers.two_clocks.runs import DIT

VALID, KNOWN = PartAccuracy.column("group"), PartMemorization.column("group")

LITTLE = 0.1  # of the groups that a model of the rule would invent
CONFIDENCE = 0.95
FEWEST = 100  # samples that are no copies, for an evaluation to count
MOST_SAMPLES = {9: 64, 12: 256, 18: 1 << 20}  # by group size: beyond this N, nearly every valid group is known
OMITTED = 4  # group size at which contents are removed from training


@dataclass(frozen=True)
class Invention:
    """How often samples that are no copies have valid groups that no training sample has.

    With k the share of the valid contents that are known, let a group be known, valid but unseen (u) or invalid (v).
    Copied groups are known. Random bits are invalid half of the time, and unseen and valid (1 − k)/2 of the time. So
    u/(1 − k) − v is 0 for every mixture of copied groups and random bits, and 1 for a model of the rule.
    """

    steps: Floats
    rate: Floats
    error: Floats  # standard error; the groups of one sample count as one trial
    known: float  # k

    @property
    def onset(self) -> Onset:
        """When more than a little is invented, with confidence."""
        sustain = min(PRINTED.sustain, len(self.steps))
        return gap_onset(self.steps, self.rate, self.error, LITTLE, sustain, CONFIDENCE)

    @property
    def answer(self) -> Answer:
        """Whether groups are only recombined: no evaluation is above, and the last one is below with confidence."""
        found = self.onset
        if found.seen:
            return "no"
        return "yes" if found.suspected is None and found.lower == self.steps[-1] else "undecided"


@CLAIMS.register("A11")
class Recombination(Claim):
    """DiT-mini, where a training set holds only some of the valid groups."""

    id: ClassVar[str] = "A11"
    title: ClassVar[str] = "Novelty is recombination: groups are copied, samples are new"
    paper: ClassVar[str] = "little novelty at the group level; the rest is parity that random bits have by chance"
    criterion: ClassVar[str] = (
        "where many valid groups are in no training sample (G = 9 with N ≤ 64, G = 12 with N ≤ 256, G = 18, and G = 4 "
        "with a group content removed from training): samples that are no copies have fewer than 10% of the unseen "
        "valid groups of a model of the rule, beyond those of random bits, at every evaluation until copying begins"
    )
    figures: ClassVar[tuple[str, ...]] = ("fig1", "fig7")
    grids: ClassVar[tuple[str, ...]] = ("dit-groups", "recombination", "recombination-omitted")

    def judge(self, records: Records) -> Judgement:
        cases = {name: {one: found for one in some if (found := invention(one))} for name, some in where(records)}
        cases = {name: found for name, found in cases.items() if found}
        wanted = [*(f"G = {group}" for group in MOST_SAMPLES), "G = 4, contents removed"]
        missing = [name for name in wanted if name not in cases]
        if not cases:
            return not_run(f"p1-dit-mini with known groups counted until copying begins ({', '.join(wanted)})")
        answers = {name: agreed(one.answer for one in found.values()) for name, found in cases.items()}
        words = [
            f"{name}: at most {max(most_of(one) for one in found.values()):.1%} of a model of the rule "
            f"({min(one.known for one in found.values()):.0%} of valid groups known; {len(found)} runs)"
            for name, found in cases.items()
        ]
        together = all_of([*answers.values()])
        if missing and together == "yes":
            together = "undecided"
        seeds = fewest(Records(found).seeds_at_one_n for found in cases.values())
        absent = [f"missing: {', '.join(missing)}"] if missing else []
        values = {
            name: [{"rate": one.rate.tolist(), "steps": one.steps.tolist(), "known": one.known} for one in f.values()]
            for name, f in cases.items()
        }
        return Judgement(verdict_of(together, seeds), "; ".join([*words, *absent]), seeds, values)


def where(records: Records) -> list[tuple[str, Records]]:
    """The runs that can show invention, by case."""
    plain = stable(records.baseline(DIT, varied=("data.omit",)))
    whole = plain.those(lambda one: not one.value("data.omit"))
    found = [
        (f"G = {group}", whole.where(rule__group=group).those(lambda one, most=most: one.n <= most))  # type: ignore[misc]
        for group, most in MOST_SAMPLES.items()
    ]
    removed = plain.where(rule__group=OMITTED).those(lambda one: bool(one.value("data.omit")))
    return [*found, ("G = 4, contents removed", removed)]


def invention(record: Record) -> Invention | None:
    """The invention of groups until copying begins; None where it was not measured, or the run ended too early.

    With contents removed, the run must learn the rule; else it must come to copy, since large groups are never learned.
    """
    metrics, clocks = record.run.metrics(), printed_clocks(record)
    decided = clocks.rule.seen if record.value("data.omit") else clocks.memory.seen
    try:
        known = record.run.metric(KNOWN).chance_rule
    except UnknownNameError:
        return None
    if not decided or known is None or known >= 1 or not {VALID, KNOWN} <= metrics.keys():
        return None
    new = 1 - metrics[SampleMemorization.name]  # copies have known groups only, so all rates can be divided by it
    trials = new * metrics["trials"]
    enough = (trials >= FEWEST) & (metrics["step"] <= clocks.memory.upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        invalid = (1 - metrics[VALID]) / new
        unseen = (metrics[VALID] - metrics[KNOWN]) / new
        rate = unseen / (1 - known) - invalid
        spread = unseen / (1 - known) ** 2 + invalid - rate**2
        error = np.sqrt(np.maximum(spread, 0) / trials)
    usable = enough & np.isfinite(rate)
    return Invention(metrics["step"][usable], rate[usable], error[usable], known) if usable.any() else None


def most_of(found: Invention) -> float:
    return float(found.rate.max())
