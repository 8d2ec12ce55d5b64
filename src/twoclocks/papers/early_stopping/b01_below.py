"""Claim B1: with fewer strings than P*, samples become valid only as copies (P2 §4.2, Fig. 4)."""

from __future__ import annotations

from typing import ClassVar

from twoclocks.evaluation import SampleMemorization, ValidNew
from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import (
    GrammarRun,
    by_size,
    grammar_runs,
    seeds_at_each,
    together,
    unless_missing,
)
from twoclocks.papers.early_stopping.runs import SIZES
from twoclocks.papers.records import Records

LOW, NEARLY_ALL = 0.5, 0.9


@CLAIMS.register("B1")
class BelowSampleComplexity(Claim):
    """The grammar (16, 4, 3, 2), whose deepest rules need P* = 4,096 strings."""

    id: ClassVar[str] = "B1"
    title: ClassVar[str] = "Below P*, errors fall only with copying"
    paper: ClassVar[str] = "RHM (16, 4, 3, 2), P < 4,096: the generated strings are valid, but they are copies"
    criterion: ClassVar[str] = (
        "at every P below P*, samples that are valid and new stay below one half until nine of ten samples are copies"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig4",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-sizes",)

    def judge(self, records: Records) -> Judgement:
        sizes = by_size(one for one in grammar_runs(records) if one.n < one.complexity)
        if not sizes:
            return not_run("the grammar (16, 4, 3, 2) with fewer than 4,096 strings")
        answers = {n: [only_copies(one) for one in runs] for n, runs in sizes.items()}
        words = [f"P = {n:,}: {'; '.join(map(described, runs))}" for n, runs in sizes.items()]
        seeds = seeds_at_each(sizes)
        values = {
            f"P={n}": [{"new": float(one.valid_new.max()), "copies": float(one.copies.max())} for one in runs]
            for n, runs in sizes.items()
        }
        needed = [n for n in records.scale.sizes(SIZES) if n < next(iter(sizes.values()))[0].complexity]
        answer, missing = unless_missing(together(answers), sizes, needed)
        return Judgement(verdict_of(answer, seeds), ". ".join(words) + missing, seeds, values)


def only_copies(one: GrammarRun) -> Answer:
    """Whether valid and new samples stayed rare until nearly all samples were copies."""
    new, copied = one.onset_of(ValidNew.name, LOW), one.onset_of(SampleMemorization.name, NEARLY_ALL)
    if new.seen and new.upper <= copied.upper:
        return "no"
    return "yes" if copied.seen else "undecided"  # without the end, valid and new ones could still come


def described(one: GrammarRun) -> str:
    return f"at most {one.valid_new.max():.0%} valid and new, {one.copies[-1]:.0%} copies at step {one.steps[-1]:,.0f}"
