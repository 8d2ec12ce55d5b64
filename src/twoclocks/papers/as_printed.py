"""The papers' own definitions of the clocks, which have no confidence bounds, read from any run; laws of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twoclocks.clocks.law import SIZES, Law, fit_law
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.window import Clocks
from twoclocks.core.errors import UserError
from twoclocks.papers.records import Record, Records
from twoclocks.runs.columns import Weights

PRINTED = ClockSettings(rule_threshold=0.9, memory_threshold=0.1, above_chance=True, sustain=3, confidence=0)
STRUCTURED = 0.85  # P1's threshold of validity for Latin squares and Sudoku (C.6)


def printed_clocks(
    record: Record,
    rule_threshold: float = PRINTED.rule_threshold,
    memory_threshold: float = PRINTED.memory_threshold,
    weights: Weights = "raw",
) -> Clocks:
    """Both clocks as P1 reads them: three evaluations in a row above 0.9 valid, and above chance + 0.1 copies.

    The thresholds of the run's own settings do not matter. A run with fewer evaluations than ``sustain`` needs all of
    them. ``weights``: raw, or averaged over training.
    """
    series = record.run.series(weights)
    settings = replace(
        PRINTED,
        rule_threshold=rule_threshold,
        memory_threshold=memory_threshold,
        sustain=min(PRINTED.sustain, len(series.steps)),
    )
    return settings.read(series, record.run.copy_chance, changes=False)


def alike_settings(settings: ClockSettings) -> ClockSettings:
    """Settings of clocks with P1's threshold of copies: that of a run also says when it ends, which may be later."""
    return replace(settings, memory_threshold=PRINTED.memory_threshold, above_chance=True)


def seen_sizes(sizes: Sequence[int], onsets: Sequence[Onset]) -> list[int]:
    """The N at which an onset was seen between two evaluations, in order."""
    return sorted({n for n, one in zip(sizes, onsets, strict=True) if one.middle is not None})


def printed_law(sizes: Sequence[int], onsets: Sequence[Onset]) -> Law:
    """The law of τ_mem over N: copying must have been seen at four N or more; other runs bound the law from below."""
    seen = seen_sizes(sizes, onsets)
    if len(seen) < SIZES:
        there = ", ".join(f"{n:,}" for n in seen) or "none"
        raise UserError(f"onsets: seen at N {there}, and a law needs {SIZES} N; make runs of more N, until they copy")
    return fit_law(sizes, onsets)


def diverged(record: Record) -> bool:
    """Whether training ended because the loss was no longer finite."""
    return bool(record.run.status["status"] == "diverged")


def stable(records: Records) -> Records:
    """Those that did not diverge: what happens on the way to no model at all is no clock of a model.

    Of a training whose longest run diverged, the longest run before that is taken.
    """
    return records.having(lambda one: not diverged(one))
