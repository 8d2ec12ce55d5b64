"""Copies by correlation: the entries of a sample follow those of a training row, at any brightness and contrast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError
from twoclocks.monitor.cosine import CosineSearch, Form, Indices, Rows, unit
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matcher, Matches
from twoclocks.monitor.inputs import Values, checked_number
from twoclocks.monitor.training_set import TrainingSet, flat


@CRITERIA.register("correlation")
@dataclass(frozen=True)
class Correlation(Criterion):
    """A copy has a (Pearson) correlation above ``above`` with a training row.

    It does not depend on brightness and contrast. Measured on the 8 × 8 digits of scikit-learn with 200 training rows:
    0.3% of held-out digits have a correlation above 0.98 with one of them (57% above 0.9), and 99% of copies with noise
    of a tenth of the standard deviation; with 1,000 training rows 1.4% and 98%.
    A row whose entries are all equal has no correlation; it is counted as 0, and never as a copy.
    """

    above: float = 0.98
    about: ClassVar[str] = "the correlation of its entries with a training row is above `above` (default 0.98)"
    is_cosine: ClassVar[bool] = True
    data: ClassVar[str] = "images whose brightness and contrast vary"

    @property
    def name(self) -> str:
        return f"copies by correlation above {self.above:g}"

    def __post_init__(self) -> None:
        checked_number("above", self.above, 0, 1, "use a number above 0 and below 1")

    def matcher(self, train: TrainingSet) -> Matcher:
        self.check_kind(train)
        rows = flat(train.values)
        if rows.shape[1] < 3:
            raise UserError(f"train: rows of {rows.shape[1]} entries; a correlation needs at least 3")
        if not any(has_variation(rows[i : i + 1024]).any() for i in range(0, len(rows), 1024)):
            raise UserError("train: the entries of each row are all equal, and have no correlation; use copies='exact'")
        forms: list[Form] = [lambda indices: rows[indices]]
        forms += [in_form(train.values, symmetry) for symmetry in train.symmetries]
        search = CosineSearch(forms, len(rows), rows.shape[1], centred_unit)

        def match(samples: Any, device: str = "cpu") -> Matches:
            found, correlations = search.search(flat(samples), device)
            found = np.where(has_variation(flat(samples)), found, -1)
            return Matches(correlations > self.above, found, 1 - correlations)

        return match


def in_form(values: Values, symmetry: Callable[[Values], Values]) -> Form:
    """A function that gives training rows in the form of a symmetry."""

    def form(indices: Indices) -> Rows:
        return flat(np.ascontiguousarray(symmetry(values[indices])))

    return form


def has_variation(rows: Rows) -> Any:
    """Whether the entries of each row differ by more than rounding: bool (n,)."""
    high, low = rows.max(1).astype(np.float64), rows.min(1).astype(np.float64)
    rounding = 4 * np.finfo(rows.dtype).eps if rows.dtype.kind == "f" else 0.0
    return high - low > rounding * np.maximum(np.abs(high), np.abs(low))


def centred_unit(rows: Rows) -> Floats:
    """Rows minus their mean, divided by their length, so that products are correlations; zeros without variation."""
    exact = rows.astype(np.float64)
    centred = exact - exact.mean(1, keepdims=True)
    centred[~has_variation(rows)] = 0
    return unit(centred)
