"""Curves and onsets of runs on a grammar, as P2 reads them: errors, copies, and the gap between losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twoclocks.clocks.onset import Onset, onset
from twoclocks.core.arrays import Floats
from twoclocks.evaluation import SampleAccuracy, SampleMemorization, ValidNew
from twoclocks.papers.as_printed import printed_clocks, stable
from twoclocks.papers.claim import Answer, agreed, all_of
from twoclocks.papers.early_stopping.runs import RHM, WIDTH
from twoclocks.papers.records import Record, Records
from twoclocks.papers.seeds import Seeds, fewest
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.runs.columns import STEP

VALID = 0.85  # of the strings: P2's "fraction of errors below 15%"
MARGIN = 0.02  # by which copies exceed chance
SUSTAIN = 3
VARIED = ("model.width", "objective.sampler_levels")  # may differ from the preset


@dataclass(frozen=True)
class GrammarRun:
    """A run on a grammar."""

    record: Record

    @property
    def n(self) -> int:
        return self.record.n

    @cached_property
    def columns(self) -> Mapping[str, Floats]:
        return self.record.run.metrics()

    @property
    def steps(self) -> Floats:
        return self.columns[STEP]

    @property
    def errors(self) -> Floats:
        """The proportion of samples that break a rule of the grammar."""
        return np.asarray(1 - self.columns[SampleAccuracy.name])

    @property
    def copies(self) -> Floats:
        return self.columns[SampleMemorization.name]

    @property
    def valid_new(self) -> Floats:
        return self.columns[ValidNew.name]

    @property
    def chance(self) -> float:
        """The proportion of true strings that are in the training set."""
        return self.record.run.copy_chance

    @property
    def complexity(self) -> int:
        """P*: how many strings the deepest rules need, by P2's theory."""
        rule = self.record.run.settings.rule
        assert isinstance(rule, RandomHierarchy)
        return rule.sample_complexity(rule.depth)

    def onset_of(self, name: str, threshold: float) -> Onset:
        """When a proportion of samples is above a threshold for three evaluations in a row."""
        series = self.record.run.series()
        hits = self.record.run.hits(name)
        return onset(series.steps, hits, series.trials, threshold, min(SUSTAIN, len(series.steps)), confidence=0)

    @cached_property
    def learned(self) -> Onset:
        """When fewer than 15% of the samples have errors."""
        return self.onset_of(SampleAccuracy.name, VALID)

    @cached_property
    def above_chance(self) -> Onset:
        """When copies exceed chance."""
        return self.onset_of(SampleMemorization.name, self.chance + MARGIN)

    @cached_property
    def memory(self) -> Onset:
        """τ_mem: when one sample in ten is a copy beyond chance."""
        return printed_clocks(self.record, VALID).memory


def grammar_runs(records: Records, preset: str = RHM, width: int = WIDTH) -> list[GrammarRun]:
    """The runs of a preset that change nothing but P, seeds and width, in order of P; none that diverged."""
    found = records.baseline(preset, VARIED)
    same = found.where(model__width=records.scale.width or width)
    return sorted(map(GrammarRun, stable(same)), key=lambda one: (one.n, one.record.seed))


def by_size(runs: Iterable[GrammarRun]) -> dict[int, list[GrammarRun]]:
    """Runs by P."""
    found: dict[int, list[GrammarRun]] = {}
    for one in runs:
        found.setdefault(one.n, []).append(one)
    return found


def seeds_at_each(sizes: Mapping[int, list[GrammarRun]]) -> Seeds:
    """The seeds that every P has."""
    return fewest(Records(one.record for one in runs).seeds for runs in sizes.values())


def together(answers: Mapping[int, list[Answer]]) -> Answer:
    """The answer of all seeds of all P: seeds of one P must agree, and one P that says no decides."""
    return all_of([agreed(found) for found in answers.values()])


def unless_missing(answer: Answer, sizes: Mapping[int, list[GrammarRun]], needed: Iterable[int]) -> tuple[Answer, str]:
    """The answer, and what is missing in words: a yes needs every P that a claim names."""
    missing = [n for n in needed if n not in sizes]
    words = f". Missing: P = {', '.join(f'{n:,}' for n in missing)}" if missing else ""
    return ("undecided" if missing and answer == "yes" else answer), words
