"""The record of a monitor: the counts of every look, checked before they are added."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twoclocks.clocks.chance import SHARE, Chance
from twoclocks.clocks.looks import rate_bounds
from twoclocks.clocks.series import Look, Series
from twoclocks.core.errors import UserError
from twoclocks.core.text import show

MOST = 2**53  # floats hold all integers below it
COUNTS = ("step", "copied", "trials", "valid", "copied_valid", "held_out_copied", "held_out_trials")


class Record:
    """Looks in the order of their steps; a look with an error is not added."""

    def __init__(self, with_validity: bool) -> None:
        self.with_validity = with_validity
        self.looks: list[Look] = []

    def __len__(self) -> int:
        return len(self.looks)

    @property
    def last_step(self) -> int | None:
        return self.looks[-1].step if self.looks else None

    def check_step(self, step: Any) -> None:
        """Raise UserError unless the step is an integer after the last one."""
        if not is_count(step):
            raise UserError(f"step: {show(step)} is not allowed; use an integer of at least 0, and below 2^53")
        if self.last_step is not None and step <= self.last_step:
            raise UserError(f"step: {step} is not after the last one, {self.last_step}; observe in order")

    def add(self, look: Look) -> None:
        """Check a look and append it, with Python's own integers and floats."""
        if not isinstance(look, Look):
            raise UserError(f"look: {show(look)} is not allowed; give a tc.monitor.Look(step, copied, trials)")
        self.check_step(look.step)
        counts = [look.copied, look.trials, *(c for c in (look.valid, look.copied_valid) if c is not None)]
        if not all(map(is_count, counts)):
            raise UserError(
                f"look: {show(look, 200)} is not allowed; counts must be integers of at least 0, and below 2^53"
            )
        if look.trials < 1 or max(counts) > look.trials:
            fix = "counts must lie between 0 and trials, which is at least 1"
            raise UserError(f"look: {show(look, 200)} is not allowed; {fix}")
        if self.with_validity and look.valid is None:
            raise UserError("look: valid is missing, and validity is known; give how many samples are valid")
        if look.copied_valid is not None and look.copied_valid > min(look.copied, look.valid or 0):
            fix = "copied_valid counts samples that are both copied and valid"
            raise UserError(f"look: {show(look, 200)} is not allowed; {fix}")
        self.check_measured(look)
        self.check_control(look)
        counted = {name: getattr(look, name) for name in COUNTS}
        measured = {name: getattr(look, name) for name in ("gap", "gap_error", "similarity")}
        plain = {name: None if value is None else int(value) for name, value in counted.items()}
        self.looks.append(Look(**plain, **{n: None if v is None else float(v) for n, v in measured.items()}))  # type: ignore[arg-type]

    def check_measured(self, look: Look) -> None:
        """Raise UserError if a loss or a similarity is not a finite number, or losses are given at some looks only."""
        for name, value in (("gap", look.gap), ("gap_error", look.gap_error), ("similarity", look.similarity)):
            if value is not None and not is_finite(value):
                raise UserError(f"look: {name} = {show(value)} is not finite, or no number; leave it out")
        if look.gap_error is not None and look.gap_error < 0:
            raise UserError(f"look: gap_error = {look.gap_error} is below 0; leave it out")
        if self.looks and (look.gap is None) != (self.looks[-1].gap is None):
            raise UserError("look: losses must be given at every look or at none; the gap's clock needs all of them")

    def check_control(self, look: Look) -> None:
        """Raise UserError if counts of held-out pieces are no counts, or given at some looks only."""
        hits, trials = look.held_out_copied, look.held_out_trials
        if (hits is None) != (trials is None) or (
            self.looks and (hits is None) != (self.looks[-1].held_out_copied is None)
        ):
            raise UserError("look: give both held_out_copied and held_out_trials at every look, or none of them at any")
        if hits is not None and not (is_count(hits) and is_count(trials) and hits <= trials and trials > 0):  # type: ignore[operator]
            fix = "held_out_copied must lie between 0 and held_out_trials, which is at least 1"
            raise UserError(f"look: {show(look, 250)} is not allowed; {fix}")

    def series(self, copies: str) -> Series:
        """All looks as columns; ``copies`` is the definition of a copy."""
        found = Series.from_looks(self.looks, copies)
        return found if self.with_validity else replace(found, valid=None)


def latest_chance(looks: Sequence[Look], fixed: Chance | None, confidence: float) -> Chance | None:
    """The chance level at the last look: of the held-out pieces that were tried at it, or else the ``fixed`` one.

    Its ends hold at all looks together; each errs with a ``SHARE`` of 1 − confidence at most, as those of a fixed one.
    """
    tried = [(look.held_out_copied, look.held_out_trials) for look in looks if look.held_out_trials is not None]
    if not tried:
        return fixed
    hits, trials = np.asarray(tried, dtype=np.float64).T
    low, high = (float(ends[-1]) for ends in rate_bounds(hits, trials, 1 - SHARE * (1 - confidence)))
    return Chance(float(hits[-1] / trials[-1]), low, high, f"{trials[-1]:.0f} held-out pieces at the last look")


def is_count(value: Any) -> bool:
    """Whether a value is an integer that can be a step or a count; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(0 <= value < MOST)


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    return bool(-sys.float_info.max <= value <= sys.float_info.max)  # also of integers with more digits; NaN is not
