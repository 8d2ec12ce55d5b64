"""Regression of times that are known to intervals only, some of them open: maximum likelihood in the logarithm.

ln τ = design · coefficients + scatter · e, where e is normal (log-normal times) or of Gumbel's law (Weibull times).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, stdtrit

from twoclocks.core.arrays import Floats

Family = Literal["log-normal", "Weibull"]
STEEP = 300.0  # logarithm of the steepest slope: far from the data it would overflow
WIDE = (0.0, 0.5, 1.5)  # ln scatter of further starts: a narrow one is deaf to a censored run far away


@dataclass(frozen=True)
class Regression:
    """The likelihood of intervals (lower, upper] of ln τ at the rows of ``design`` (n, k)."""

    design: Floats
    lower: Floats
    upper: Floats
    family: Family = "log-normal"

    @property
    def definite(self) -> int:
        """Times that are known to a closed interval; open ones say too little to count as degrees of freedom."""
        return int((np.isfinite(self.lower) & np.isfinite(self.upper)).sum())

    @property
    def spare(self) -> int:
        """Degrees of freedom."""
        return max(self.definite - int(self.design.shape[1]), 1)

    @property
    def floor(self) -> float:
        """Least ln scatter. Below the resolution of the evaluations it cannot be told from none.

        A uniform onset in an interval has about a quarter of its width; the likelihood is flat below that.
        """
        widths = (self.upper - self.lower)[np.isfinite(self.upper - self.lower)]
        return float(np.log(max(1e-3, 0.25 * float(np.median(widths))))) if len(widths) else float(np.log(1e-3))

    def loss(self, parameters: Floats) -> tuple[float, Floats]:
        """Minus the log likelihood of (coefficients, ln scatter), and its gradient."""
        scatter = np.exp(parameters[-1])
        mean = self.design @ parameters[:-1]
        low, high = (self.lower - mean) / scatter, (self.upper - mean) / scatter
        inside, density_low, density_high = interval(low, high, self.family)
        by_mean = -(density_high - density_low) / scatter
        by_scatter = -(times(high, density_high) - times(low, density_low))
        return -float(inside.sum()), -np.append(by_mean @ self.design, by_scatter.sum())

    def fit(self, fixed: tuple[int, float] | None = None, start: Floats | None = None) -> tuple[float, Floats]:
        """Least loss and where it lies; ``fixed`` holds one coefficient at a value."""
        from scipy.optimize import minimize  # half of the import time of clocks/, and only laws need it

        first = self.start() if start is None else start
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * (len(first) - 1) + [(self.floor, 4.0)]
        starts = [first, *([*first[:-1], wide] for wide in WIDE if start is None)]
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
        """Profile likelihood interval of one coefficient, cut so that it is Student's for normal, uncensored data."""
        least, where = best
        reach = stdtrit(self.spare, (1 + level) / 2)
        cut = least + self.definite / 2 * np.log1p(reach**2 / self.spare)

        def excess(value: float) -> float:
            return self.fit((column, value), where)[0] - float(cut)

        low, high = (edge(excess, float(where[column]), direction) for direction in (-1, 1))
        return low, high

    def covariance(self, where: Floats) -> Floats:
        """Of the coefficients, from the curvature at the maximum."""
        step = 1e-4
        rows = [
            (self.loss(where + step * unit)[1] - self.loss(where - step * unit)[1]) / (2 * step)
            for unit in np.eye(len(where))
        ]
        curvature = (np.array(rows) + np.array(rows).T) / 2
        if where[-1] <= self.floor + 1e-9:  # held at its bound: it does not vary
            curvature = curvature[:-1, :-1]
        k = self.design.shape[1]
        return np.asarray(np.linalg.pinv(curvature)[:k, :k])


def interval(low: Floats, high: Floats, family: Family) -> tuple[Floats, Floats, Floats]:
    """ln P(low < e ≤ high), exact in both tails, and the densities at both ends over that probability."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if family == "log-normal":
            flip = low > 0  # use the mirrored tail, where the difference of the two does not vanish
            big, small = (np.where(flip, log_ndtr(-a), log_ndtr(b)) for a, b in ((low, high), (high, low)))
            density = [-0.5 * end**2 - 0.5 * np.log(2 * np.pi) for end in (low, high)]
        else:
            big, small = (-np.exp(np.minimum(end, STEEP)) for end in (low, high))  # ln of the survival at both ends
            density = [end - np.exp(np.minimum(end, STEEP)) for end in (low, high)]
        inside = np.where(np.isneginf(small), big, big + np.log1p(-np.exp(np.minimum(small - big, 0.0))))
        thin = np.maximum(*density) + np.log(high - low)  # so far out that both ends have the same tail
        inside = np.where(np.isneginf(inside), thin, inside)
        at_low, at_high = (np.where(np.isfinite(one), np.exp(np.minimum(one - inside, STEEP)), 0.0) for one in density)
    return inside, at_low, at_high


def times(end: Floats, density: Floats) -> Floats:
    """end · density, 0 at an open end."""
    return np.where(np.isfinite(end), end, 0.0) * density


def edge(excess: Callable[[float], float], start: float, direction: int) -> float:
    """Where the profile likelihood falls below the cut, searched outwards in growing steps."""
    from scipy.optimize import brentq

    step, inner = 0.02, start
    for _ in range(40):
        outer = start + direction * step
        if excess(outer) > 0:
            return float(brentq(excess, min(inner, outer), max(inner, outer), xtol=1e-4))
        inner, step = outer, step * 1.6
    return direction * float("inf")
