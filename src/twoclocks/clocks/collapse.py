"""Compare two rescaled times, steps/N and steps·batch/N: which makes onsets of different runs agree better?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twoclocks.clocks.law import check_points, log_intervals
from twoclocks.clocks.onset import Onset
from twoclocks.clocks.regression import Regression
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError


@dataclass(frozen=True)
class Collapse:
    """How well onsets agree on steps/N and on steps·batch/N, and the power of the batch that fits best."""

    steps_spread: float  # standard deviation of ln(τ/N) over the runs
    samples_spread: float  # standard deviation of ln(τ·batch/N)
    evidence: float  # ln likelihood of steps·batch/N minus that of steps/N: positive if the former collapses better
    batch_power: float  # τ ∝ batch^power at fixed N: 0 means steps, −1 means samples seen
    batch_power_ci: tuple[float, float]
    size_power: float
    points: int
    censored: int

    @property
    def better(self) -> str:
        """The time with the higher likelihood."""
        return "steps·batch/N" if self.evidence > 0 else "steps/N"

    def __str__(self) -> str:
        low, high = self.batch_power_ci
        spreads = f"spread {self.samples_spread:.2f} on steps·batch/N, {self.steps_spread:.2f} on steps/N"
        power = f"τ ∝ batch^{self.batch_power:.2f} (95%: {low:.2f} to {high:.2f})"
        return f"{self.better} collapses better by {abs(self.evidence):.1f} in ln likelihood; {spreads}; {power}"

    def as_json(self) -> dict[str, Any]:
        ends = [end if math.isfinite(end) else None for end in self.batch_power_ci]
        size = self.size_power if math.isfinite(self.size_power) else None  # all runs have one size
        return {**asdict(self), "size_power": size, "batch_power_ci": ends, "better": self.better}


def collapse(sizes: Sequence[int], batches: Sequence[int], onsets: Sequence[Onset]) -> Collapse:
    """Fit onsets of runs with different batch sizes on steps/N and on steps·batch/N.

    >>> runs = [(n, b) for n in (64, 128, 256, 512) for b in (32, 64)]
    >>> onsets = [Onset(900 * n / b, 1100 * n / b, "observed") for n, b in runs]
    >>> collapse([n for n, _ in runs], [b for _, b in runs], onsets).better
    'steps·batch/N'
    """
    if len(batches) != len(sizes) or min(batches, default=0) < 1:
        raise UserError(f"batches: {list(batches)} is not allowed; give one positive number per run")
    check_points(sizes, onsets, least=1)
    if len(set(batches)) < 2:
        fix = "steps and samples seen cannot be distinguished; give runs of several batch sizes"
        raise UserError(f"batches: all runs have {batches[0]}; {fix}")
    log_n, log_b = (np.log(np.asarray(values, dtype=np.float64)) for values in (sizes, batches))
    lower, upper = log_intervals(onsets)
    intercept = np.ones((len(log_n), 1))
    spreads, losses = [], []
    for shift in (-log_n, log_b - log_n):
        loss, where = Regression(intercept, lower + shift, upper + shift).fit()
        losses.append(loss)
        spreads.append(math.exp(where[-1]))
    columns = [intercept[:, 0], log_b - log_b.mean()]
    has_sizes = len(set(sizes)) > 1
    full = Regression(np.column_stack([*columns, log_n - log_n.mean()] if has_sizes else columns), lower, upper)
    check_rank(full.design)
    best = full.fit()
    return Collapse(
        steps_spread=spreads[0],
        samples_spread=spreads[1],
        evidence=losses[0] - losses[1],
        batch_power=float(best[1][1]),
        batch_power_ci=full.interval(1, best),
        size_power=float(best[1][2]) if has_sizes else math.nan,
        points=len(onsets),
        censored=sum(one.status != "observed" for one in onsets),
    )


def check_rank(design: Floats) -> None:
    """Raise UserError if the columns of a design matrix are linearly dependent."""
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise UserError(
            "batches: they grow with the sizes, so their powers are not identified; cross batches and sizes"
        )
