"""The record of a monitor: the counts of every look, checked before they are added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from twoclocks.clocks.series import Look, Series
from twoclocks.core.errors import UserError


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
        if not isinstance(step, int | np.integer) or step < 0:
            raise UserError(f"step: {step!r} is not allowed; use an integer of at least 0")
        if self.last_step is not None and step <= self.last_step:
            raise UserError(f"step: {step} is not after the last one, {self.last_step}; observe in order")

    def add(self, look: Look) -> None:
        """Check a look and append it, with Python's own integers and floats."""
        self.check_step(look.step)
        counts = look.copied, look.trials, look.valid or 0, look.copied_valid or 0
        if not all(isinstance(count, int | np.integer) for count in counts):
            raise UserError(f"look: {look} is not allowed; counts must be integers")
        if look.trials < 1 or not all(0 <= count <= look.trials for count in counts):
            raise UserError(f"look: {look} is not allowed; counts must lie between 0 and trials, which is at least 1")
        if self.with_validity and look.valid is None:
            raise UserError("look: valid is missing, and validity is known; give how many samples are valid")
        if look.copied_valid is not None and look.copied_valid > min(look.copied, look.valid or 0):
            raise UserError(f"look: {look} is not allowed; copied_valid counts samples that are both copied and valid")
        self.check_gap(look)
        counted = {name: getattr(look, name) for name in ("step", "copied", "trials", "valid", "copied_valid")}
        losses = {name: getattr(look, name) for name in ("gap", "gap_error")}
        plain = {name: None if value is None else int(value) for name, value in counted.items()}
        self.looks.append(Look(**plain, **{n: None if v is None else float(v) for n, v in losses.items()}))  # type: ignore[arg-type]

    def check_gap(self, look: Look) -> None:
        """Raise UserError if the gap is not finite, or given at some looks only."""
        gap, error = look.gap or 0.0, look.gap_error or 0.0
        if not np.isfinite([gap, error]).all() or error < 0:
            raise UserError(f"look: the gap {gap} ± {error} is not finite, or its error is below 0; leave it out")
        if self.looks and (look.gap is None) != (self.looks[-1].gap is None):
            raise UserError("look: losses must be given at every look or at none; the gap's clock needs all of them")

    def series(self, copies: str) -> Series:
        """All looks as columns; ``copies`` is the definition of a copy."""
        found = Series.from_looks(self.looks, copies)
        return found if self.with_validity else replace(found, valid=None)
