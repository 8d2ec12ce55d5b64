"""Copies by a distance of your own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import SettingError, UserError
from twoclocks.monitor.criteria.base import Criterion, Matcher, Matches
from twoclocks.monitor.inputs import Shown, Values, as_array, called, checked_number
from twoclocks.monitor.training_set import TrainingSet


@dataclass(frozen=True)
class Distance(Criterion):
    """A copy is nearer than ``below`` by your own distance: ``function(samples, train)`` returns (n,) or (n, N).

    The function receives arrays (n, *shape) and (N, *shape).
    """

    function: Callable[[Values, Values], Any]
    below: float
    about: ClassVar[str] = "your own function says that it is near"
    data: ClassVar[str] = "anything"

    @property
    def name(self) -> str:
        own = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"copies by {own} below {self.below:g}"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise SettingError("function", Shown(self.function), "use a function of samples and training rows")
        checked_number("below", self.below, -math.inf, math.inf, "use a number")

    def matcher(self, train: TrainingSet) -> Matcher:
        self.check_kind(train)

        def match(samples: Any, device: str = "cpu") -> Matches:
            rows = np.full(len(samples), -1, dtype=np.int64)
            distances = np.full(len(samples), np.inf)
            for form in train.forms():
                found, distance = self.nearest(samples, form)
                nearer = distance < distances
                rows, distances = np.where(nearer, found, rows), np.where(nearer, distance, distances)
            return Matches(distances < self.below, rows, distances)

        return match

    def nearest(self, samples: Values, train: Values) -> tuple[Any, Any]:
        """Nearest row of each sample (−1 if the function returns only the distance) and its distance: (n,) each."""
        distance = as_array(called(self.function, "function", as_given(samples), as_given(train)), "function")
        if distance.dtype.kind not in "iubf":
            raise UserError(f"function: it returned {distance.dtype}; return distances as floats")
        distance = distance.astype(np.float64)
        if distance.shape not in ((len(samples),), (len(samples), len(train))):
            expected = f"({len(samples)},) or ({len(samples)}, {len(train)})"
            raise UserError(f"function: it returned the shape {distance.shape}; return {expected}")
        if np.isnan(distance).any():
            raise UserError("function: it returned NaN; a missing distance must not count as 'not a copy'")
        if distance.ndim == 1:
            return np.full(len(samples), -1, dtype=np.int64), distance
        return distance.argmin(1), distance.min(1)


def as_given(values: Values) -> Values:
    """A copy in a dtype in which differences do not overflow; the function may write into it."""
    return values.astype(np.int64 if values.dtype.kind in "iub" else values.dtype)
