"""The rows of one run in memory, as one array of numbers per column: a tenth of what the rows themselves would take."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

MISSING = -math.inf  # of a column that a row lacks; stored rows contain no infinity


class Columns:
    """Numbers by column; rows are appended one by one.

    >>> columns = Columns()
    >>> columns.add({"step": 1, "loss": None})
    >>> columns.add({"step": 2, "loss": 0.5, "valid_hits": 3})
    >>> list(columns.rows())
    [{'step': 1.0, 'loss': nan}, {'step': 2.0, 'loss': 0.5, 'valid_hits': 3.0}]
    """

    def __init__(self) -> None:
        self.arrays: dict[str, array[float]] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, row: Mapping[str, Any]) -> None:
        """One row; texts, such as the checksums of samples, are left out, and null becomes NaN."""
        for key, value in row.items():
            if isinstance(value, str):
                continue
            if key not in self.arrays:
                self.arrays[key] = array("d", [MISSING]) * self.count
            self.arrays[key].append(math.nan if value is None else value)
        self.count += 1
        for values in self.arrays.values():
            if len(values) < self.count:
                values.append(MISSING)

    def rows(self, start: int = 0) -> Iterator[dict[str, float]]:
        """The rows from number ``start`` on, each with the columns that it has."""
        for k in range(start, self.count):
            yield {key: values[k] for key, values in self.arrays.items() if values[k] != MISSING}
