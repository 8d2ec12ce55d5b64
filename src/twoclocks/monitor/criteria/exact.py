"""Exact copies: a sample is equal to a training row in every entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import UserError
from twoclocks.core.rows import byte_keys
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matcher, Matches
from twoclocks.monitor.inputs import Values, checked_flag
from twoclocks.monitor.training_set import TrainingSet, common_dtype, flat


@CRITERIA.register("exact")
@dataclass(frozen=True)
class Exact(Criterion):
    """A copy is equal to a training row in every entry.

    Floats of a trained network are almost never equal to training values, so they are refused unless ``floats`` is set.
    """

    floats: bool = False
    about: ClassVar[str] = "it is equal to a training row in every entry"
    data: ClassVar[str] = "symbols, tokens, grids"

    @property
    def name(self) -> str:
        return "copies"

    def __post_init__(self) -> None:
        checked_flag("floats", self.floats)

    def matcher(self, train: TrainingSet) -> Matcher:
        check_floats(self, train)

        def match(samples: Any, device: str = "cpu") -> Matches:
            rows = np.full(len(samples), -1, dtype=np.int64)
            for form in train.forms():
                found = equal_rows(flat(samples), flat(form))
                rows = np.where(rows < 0, found, rows)
            return Matches(rows >= 0, rows, np.where(rows >= 0, 0.0, np.inf))

        return match


def check_floats(criterion: Exact | Any, train: TrainingSet) -> None:
    """Raise UserError for floats, where entries are almost never equal, unless the criterion asks for them."""
    if train.kind == "floats" and not criterion.floats:
        kind = type(criterion).__name__
        fix = f"use copies='auto' or 'ratio', or {kind}(…, floats=True) if samples repeat training values bit by bit"
        raise UserError(f"copies: {criterion.name!r} compares entries for equality, but the values are floats; {fix}")


def equal_rows(samples: Values, train: Values) -> Any:
    """Index of the training row (N, entries) that equals each sample (n, entries), or −1: int64 (n,)."""
    kind = common_dtype(samples.dtype, train.dtype)
    # There are fewer samples than training rows: sort the samples, and search each training row among them.
    unique, place = np.unique(byte_keys(samples.astype(kind, copy=False)), return_inverse=True)
    keys = byte_keys(train.astype(kind, copy=False))
    at = np.minimum(np.searchsorted(unique, keys), len(unique) - 1)
    same = unique[at] == keys
    found = np.full(len(unique), -1, dtype=np.int64)
    found[at[same]] = np.flatnonzero(same)
    return found[place]
