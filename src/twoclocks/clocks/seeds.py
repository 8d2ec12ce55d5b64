"""Variance components: how much of a clock's variance over crossed seeds is due to initialisation and to data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import fdtrc

from twoclocks.core.errors import UserError


@dataclass(frozen=True)
class VarianceSplit:
    """Variance components of ln τ in a crossed design; ``rest`` is interaction and the spacing of evaluations."""

    training: float
    data: float
    rest: float
    training_p: float  # p-value (F test) of the hypothesis that the training seed has no effect
    data_p: float
    shape: tuple[int, int]  # training seeds, data seeds

    @property
    def shares(self) -> dict[str, float]:
        """Each component as a share of the total variance."""
        whole = self.training + self.data + self.rest
        parts = {"training": self.training, "data": self.data, "rest": self.rest}
        return {name: part / whole if whole > 0 else 0.0 for name, part in parts.items()}

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        a, b = self.shape
        return f"{shares} of the variance of ln τ ({a} training × {b} data seeds)"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape), "shares": self.shares}


def variance_split(training: Sequence[int], data: Sequence[int], values: Sequence[float]) -> VarianceSplit:
    """Split the variance of ln τ by two-way analysis of variance with random effects, without replication.

    >>> split = variance_split([0, 0, 1, 1, 2, 2], [0, 1] * 3, [1.0, 1.1, 3.0, 3.1, 5.0, 5.1])
    >>> split.shares["training"] > 0.99
    True
    """
    rows, columns = sorted(set(training)), sorted(set(data))
    cells = dict(zip(zip(training, data, strict=True), values, strict=True))
    if len(cells) < len(values):
        raise UserError("seeds: a pair of training and data seed occurs twice; give one run of each")
    missing = [(r, c) for r in rows for c in columns if (r, c) not in cells]
    if missing:
        raise UserError(f"seeds: training {missing[0][0]} × data {missing[0][1]} is missing; cross all seeds")
    if len(rows) < 2 or len(columns) < 2:
        raise UserError(f"seeds: {len(rows)} × {len(columns)} seeds are too few; give at least 2 of each")
    table = np.array([[cells[r, c] for c in columns] for r in rows], dtype=np.float64)
    if not np.isfinite(table).all():
        raise UserError("seeds: a clock was not observed; the split needs all of them")
    a, b = table.shape
    by_row, by_column, whole = table.mean(1), table.mean(0), table.mean()
    residual = table - by_row[:, None] - by_column[None, :] + whole
    row_square = b * float(((by_row - whole) ** 2).sum()) / (a - 1)
    column_square = a * float(((by_column - whole) ** 2).sum()) / (b - 1)
    rest = float((residual**2).sum()) / ((a - 1) * (b - 1))
    freedom = (a - 1) * (b - 1)
    return VarianceSplit(
        training=max(0.0, (row_square - rest) / b),
        data=max(0.0, (column_square - rest) / a),
        rest=rest,
        training_p=f_test(a - 1, freedom, row_square, rest),
        data_p=f_test(b - 1, freedom, column_square, rest),
        shape=(a, b),
    )


def f_test(numerator: int, denominator: int, square: float, rest: float) -> float:
    """p-value of a mean square against ``rest``, with their degrees of freedom."""
    if rest > 0:
        return float(fdtrc(numerator, denominator, square / rest))
    return 0.0 if square > 0 else 1.0
