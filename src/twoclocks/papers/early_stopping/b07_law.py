"""Claim B7 on a grammar: τ_mem grows in proportion to the number of strings (P2 §4.2, insets of Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from twoclocks.clocks.law import Law, fit_law
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.power import end_powers
from twoclocks.core.errors import UserError
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, not_run
from twoclocks.papers.early_stopping.grammar_runs import GrammarRun, by_size, grammar_runs, seeds_at_each
from twoclocks.papers.intervals import Interval, is_exponent
from twoclocks.papers.records import Records

NARROW = 0.15
FEWEST = 4  # sizes


@CLAIMS.register("B7-rhm")
class LinearInStrings(Claim):
    """τ_mem over P on the grammar (16, 4, 3, 2)."""

    id: ClassVar[str] = "B7"
    title: ClassVar[str] = "τ_mem is proportional to the number of training strings"
    paper: ClassVar[str] = "RHM: τ_mem ∝ P"
    criterion: ClassVar[str] = (
        "over all P at which every seed began to copy, four or more: the exponent's 95% interval is narrower than "
        "±0.15 and holds 1, or lies within 1 ± 0.15; refuted where it lies outside; "
        "undecided where the curve bends so that an end leaves the tolerance"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig4",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-sizes",)

    def judge(self, records: Records) -> Judgement:
        sizes = uncensored(grammar_runs(records))
        runs = [one for same in sizes.values() for one in same]
        found = proportional([one.n for one in runs], [one.memory for one in runs]) if len(sizes) >= FEWEST else None
        if found is None:
            there = ", ".join(f"{n:,}" for n in sizes) or "none"
            return not_run(f"the grammar (16, 4, 3, 2) at four P to beyond τ_mem (there: {there})")
        return Judgement.of(found.answer, f"τ_mem = {found.words}", seeds_at_each(sizes), found.law.as_json())


def uncensored(runs: list[GrammarRun]) -> dict[int, list[GrammarRun]]:
    """The P at which every run began to copy."""
    return {n: same for n, same in by_size(runs).items() if all(one.memory.seen for one in same)}


class Proportional(NamedTuple):
    """Whether onsets are proportional to P, with the law in words and numbers."""

    answer: Answer
    words: str
    law: Law


def proportional(sizes: Sequence[int], onsets: Sequence[Onset]) -> Proportional | None:
    """Whether onsets are proportional to the number of training samples; None where they do not identify a law."""
    try:
        law = fit_law(sizes, onsets)
    except UserError:
        return None
    low, high = law.alpha_ci
    words = (
        f"{law.a:.3g}·P^{law.alpha:.2f} (95%: {low:.2f} to {high:.2f}; {law.points} runs, "
        f"P {law.sizes[0]:,}–{law.sizes[-1]:,})"
    )
    answer = is_exponent(Interval(low, high), 1.0, NARROW)
    ends = end_powers(sizes, onsets)
    if ends is not None:
        words += f"; it bends: local power {ends[0]:.2f} at the smallest P, {ends[1]:.2f} at the largest"
        if answer == "yes" and any(abs(one - 1.0) > NARROW for one in ends):
            answer = "undecided"
    return Proportional(answer, words, law)
