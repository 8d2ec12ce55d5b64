"""Interval-censored regression of the logarithm of times, by maximum likelihood.

ln τ = design · coefficients + scatter · e, where e is normal (log-normal times) or Gumbel distributed (Weibull times).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, stdtr, stdtrit

from twoclocks.core.arrays import Floats

Family = Literal["log-normal", "Weibull"]
LARGEST_LOG = 300.0  # exponents are cut here: far from the data exp would overflow
STARTS = (0.0, 0.5, 1.5)  # ln scatter of further starts: with a small one, a censored run far away has no gradient


MANY = 1000  # times from which on equal rows are counted instead of repeated


@dataclass(frozen=True)
class Regression:
    """A regression of ln τ, known in intervals (lower, upper], on the rows of ``design`` (n, k)."""

    design: Floats
    lower: Floats
    upper: Floats
    family: Family = "log-normal"

    @cached_property
    def distinct(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Design, lower and upper ends, and how often each row occurs.

        Runs of one sweep share their evaluations, so thousands of them have few different intervals.
        """
        if len(self.lower) < MANY:
            return self.design, self.lower, self.upper, np.ones(len(self.lower))
        rows = np.column_stack([self.design, self.lower, self.upper])
        found, counts = np.unique(rows, axis=0, return_counts=True)
        return found[:, :-2], found[:, -2], found[:, -1], counts.astype(np.float64)

    @property
    def uncensored(self) -> int:
        """Number of times with a closed interval; only these count for degrees of freedom."""
        return int((np.isfinite(self.lower) & np.isfinite(self.upper)).sum())

    @property
    def degrees_of_freedom(self) -> int:
        """Uncensored times minus the coefficients that they have a part in, at least 1.

        The coefficient of a group of censored times alone takes nothing away from what the others say about scatter.
        """
        seen = np.isfinite(self.lower) & np.isfinite(self.upper)
        return max(self.uncensored - int((self.design[seen] != 0).any(axis=0).sum()), 1)

    @cached_property
    def floor(self) -> float:
        """Smallest ln scatter: below the spacing of the evaluations, scatter cannot be measured.

        An onset that is uniform in an interval has a standard deviation of about a quarter of its width; below that the
        likelihood is flat.
        """
        widths = (self.upper - self.lower)[np.isfinite(self.upper - self.lower)]
        return float(np.log(max(1e-3, 0.25 * float(np.median(widths))))) if len(widths) else float(np.log(1e-3))

    def loss(self, parameters: Floats) -> tuple[float, Floats]:
        """Negative log-likelihood of (coefficients, ln scatter), and its gradient."""
        scatter = np.exp(parameters[-1])
        design, lower, upper, counts = self.distinct
        mean = design @ parameters[:-1]
        low, high = (lower - mean) / scatter, (upper - mean) / scatter
        inside, density_low, density_high = log_probability(low, high, self.family)
        by_mean = -(density_high - density_low) / scatter
        by_scatter = -(end_times_density(high, density_high) - end_times_density(low, density_low))
        return -float((counts * inside).sum()), -np.append((counts * by_mean) @ design, (counts * by_scatter).sum())

    def fit(self, fixed: tuple[int, float] | None = None, start: Floats | None = None) -> tuple[float, Floats]:
        """Minimise the loss; return the minimum and its parameters. ``fixed`` keeps one coefficient at a value."""
        from scipy.optimize import minimize  # half of the import time of clocks/, and only laws need it

        first = self.start() if start is None else start
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * (len(first) - 1) + [(self.floor, 4.0)]
        starts = [first, *([*first[:-1], scatter] for scatter in STARTS if start is None)]
        found = []
        for begin in np.array(starts):
            if fixed is not None:
                column, value = fixed
                begin[column] = value
                bounds[column] = (value, value)
            best = minimize(self.loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
            found.append((float(best.fun), np.asarray(best.x)))
        return min(found, key=lambda one: one[0])

    def start(self) -> Floats:
        """Least squares on the middles of the closed intervals."""
        seen = np.isfinite(self.lower) & np.isfinite(self.upper)
        middle = (self.lower[seen] + self.upper[seen]) / 2
        slopes = np.linalg.lstsq(self.design[seen], middle, rcond=None)[0]
        rest = float(np.std(middle - self.design[seen] @ slopes))
        return np.append(slopes, max(np.log(max(rest, 1e-3)), self.floor))

    def interval(self, column: int, best: tuple[float, Floats], level: float = 0.95) -> tuple[float, float]:
        """Profile-likelihood interval of one coefficient; for normal, uncensored data it equals Student's interval."""
        least, where = best
        freedom = self.degrees_of_freedom
        reach = stdtrit(freedom, (1 + level) / 2)
        cut = least + self.uncensored / 2 * np.log1p(reach**2 / freedom)

        def excess(value: float) -> float:
            return self.fit((column, value), where)[0] - float(cut)

        low, high = (interval_end(excess, float(where[column]), direction) for direction in (-1, 1))
        return low, high

    def p_value(self, column: int, best: tuple[float, Floats], value: float = 0.0) -> float:
        """Probability of data as far from ``value`` of a coefficient, if it has that value; goes with ``interval``."""
        least, where = best
        freedom = self.degrees_of_freedom
        excess = max(0.0, self.fit((column, value), where)[0] - least)
        distance = np.sqrt(freedom * np.expm1(min(2 * excess / max(self.uncensored, 1), LARGEST_LOG)))
        return float(2 * stdtr(freedom, -distance))

    def covariance(self, where: Floats) -> Floats:
        """Covariance of the coefficients, from the Hessian at the minimum of the loss."""
        step = 1e-4
        rows = [
            (self.loss(where + step * unit)[1] - self.loss(where - step * unit)[1]) / (2 * step)
            for unit in np.eye(len(where))
        ]
        hessian = (np.array(rows) + np.array(rows).T) / 2
        if where[-1] <= self.floor + 1e-9:  # the scatter is at its bound and does not vary
            hessian = hessian[:-1, :-1]
        k = self.design.shape[1]
        return np.asarray(np.linalg.pinv(hessian)[:k, :k])


def log_probability(low: Floats, high: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
    """ln P(low < e ≤ high), accurate in both tails, and the densities at both ends divided by that probability."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if family == "log-normal":
            flip = low > 0  # use the mirrored tail, in which the difference of both ends does not underflow
            big, small = (np.where(flip, log_ndtr(-a), log_ndtr(b)) for a, b in ((low, high), (high, low)))
            density = [-0.5 * end**2 - 0.5 * np.log(2 * np.pi) for end in (low, high)]
        else:
            big, small = (
                -np.exp(np.minimum(end, LARGEST_LOG)) for end in (low, high)
            )  # ln of the survival function at both ends
            density = [end - np.exp(np.minimum(end, LARGEST_LOG)) for end in (low, high)]
        inside = np.where(np.isneginf(small), big, big + np.log1p(-np.exp(np.minimum(small - big, 0.0))))
        # So far in the tail that both ends have the same survival: density times width.
        far = np.maximum(*density) + np.log(high - low)
        inside = np.where(np.isneginf(inside), far, inside)
        at_low, at_high = (
            np.where(np.isfinite(one), np.exp(np.minimum(one - inside, LARGEST_LOG)), 0.0) for one in density
        )
    return inside, at_low, at_high


def end_times_density(end: Floats, density: Floats) -> Floats:
    """end · density, and 0 at an open end."""
    return np.where(np.isfinite(end), end, 0.0) * density


def interval_end(excess: Callable[[float], float], start: float, direction: int) -> float:
    """Where the profile likelihood falls below the cut, searched from ``start`` in growing steps."""
    from scipy.optimize import brentq

    step, inner = 0.02, start
    for _ in range(40):
        outer = start + direction * step
        if excess(outer) > 0:
            return float(brentq(excess, min(inner, outer), max(inner, outer), xtol=1e-4))
        inner, step = outer, step * 1.6
    return direction * float("inf")
