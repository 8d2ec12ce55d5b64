"""Claim B2: with P* strings or more, samples are valid before they are copied; and after how many steps (P2 §4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import ClassVar

import numpy as np

from twoclocks.papers.claim import CLAIMS, Answer, Claim, Judgement, not_run, verdict_of
from twoclocks.papers.early_stopping.grammar_runs import (
    GrammarRun,
    by_size,
    grammar_runs,
    seeds_at_each,
    together,
    unless_missing,
)
from twoclocks.papers.early_stopping.runs import FULL_WIDTH, WIDTH
from twoclocks.papers.intervals import Interval, interval_of, is_earlier, is_within, median_of
from twoclocks.papers.records import Records

FACTOR = 2.0
LARGE = (4096, 8192, 16384)


@CLAIMS.register("B2-valid")
class AboveSampleComplexity(Claim):
    """The grammar (16, 4, 3, 2) with 4,096 strings or more."""

    id: ClassVar[str] = "B2"
    title: ClassVar[str] = "From P* on, samples are valid before they are copied"
    paper: ClassVar[str] = "RHM (16, 4, 3, 2), P ≥ 4,096: fewer than 15% errors before copying begins"
    criterion: ClassVar[str] = (
        "at P = 4,096, 8,192 and 16,384: 85% of the samples are valid before copies exceed chance by two points"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig4", "p2-fig6")
    grids: ClassVar[tuple[str, ...]] = ("rhm-sizes",)

    def judge(self, records: Records) -> Judgement:
        sizes = by_size(one for one in grammar_runs(records) if one.n >= one.complexity)
        if not sizes:
            return not_run("the grammar (16, 4, 3, 2) with 4,096 strings or more")
        answers = {n: [valid_first(one) for one in runs] for n, runs in sizes.items()}
        words = [f"P = {n:,}: {'; '.join(map(described, runs))}" for n, runs in sizes.items()]
        values = {
            f"P={n}": [{"valid": one.learned.as_json(), "copies": one.above_chance.as_json()} for one in runs]
            for n, runs in sizes.items()
        }
        seeds = seeds_at_each(sizes)
        answer, missing = unless_missing(together(answers), sizes, LARGE)
        return Judgement(verdict_of(answer, seeds), ". ".join(words) + missing, seeds, values)


@CLAIMS.register("B2-steps")
class StepsToValid(Claim):
    """How many steps it takes: P2 draws τ* = P* as a line and says that errors are below 15% after it."""

    id: ClassVar[str] = "B2"
    title: ClassVar[str] = "Samples are valid after τ* = P* steps"
    paper: ClassVar[str] = "P = 4,096 and 16,384: fewer than 15% errors for τ > τ* = P* = 4,096 steps"
    criterion: ClassVar[str] = (
        "the median step from which 85% of the samples are valid is within a factor of 2 of P*, at every P ≥ P*"
    )
    figures: ClassVar[tuple[str, ...]] = ("p2-fig4",)
    grids: ClassVar[tuple[str, ...]] = ("rhm-sizes", "rhm-wide")

    def judge(self, records: Records) -> Judgement:
        sizes = by_size(one for one in grammar_runs(records) if one.n >= one.complexity)
        if not sizes:
            return not_run("the grammar (16, 4, 3, 2) with 4,096 strings or more")
        ratios = {n: steps_over_complexity(runs) for n, runs in sizes.items()}
        words = [f"P = {n:,}: {ratio} P* (median of {len(sizes[n])})" for n, ratio in ratios.items()]
        seeds = seeds_at_each(sizes)
        values = {f"P={n}": ratio.as_json() for n, ratio in ratios.items()}
        answers = {n: [is_within(ratio, 1 / FACTOR, FACTOR)] for n, ratio in ratios.items()}
        answer, missing = unless_missing(together(answers), sizes, LARGE)
        said = f"85% valid after {', '.join(words)}{missing}{width_words(records)}"
        return Judgement(verdict_of(answer, seeds), said, seeds, values)


def width_words(records: Records) -> str:
    """Valid samples of networks with P2's width beside ours, at the last step that both have: reported, not judged."""
    if records.scale.width is not None:  # small scales have one width
        return ""
    narrow = by_size(grammar_runs(records))
    found = []
    for n, wide in by_size(grammar_runs(records, width=FULL_WIDTH)).items():
        if same := narrow.get(n):
            last = min(one.steps[-1] for one in (*wide, *same))
            shares = [median(valid_at(one, last) for one in runs) for runs in (wide, same)]
            found.append(
                f"P = {n:,}, step {last:,.0f}: {shares[0]:.0%} with {FULL_WIDTH:,}, {shares[1]:.0%} with {WIDTH}"
            )
    return f". Valid samples by channels: {'; '.join(found)}" if found else ""


def valid_at(one: GrammarRun, step: float) -> float:
    """The proportion of valid samples at a step, between two evaluations by interpolation in its logarithm."""
    return 1 - float(np.interp(np.log(step), np.log(np.maximum(one.steps, 1)), one.errors))


def valid_first(one: GrammarRun) -> Answer:
    """Whether 85% are valid before copies exceed chance; undecided where the run ended before."""
    return is_earlier(one.learned, one.above_chance)


def described(one: GrammarRun) -> str:
    return f"85% valid {one.learned}, copies above chance {one.above_chance}"


def steps_over_complexity(runs: Sequence[GrammarRun]) -> Interval:
    """The median number of steps to 85% valid samples, in units of P*."""
    return median_of([interval_of(one.learned) for one in runs]).scaled(1 / runs[0].complexity)
