"""The law τ = a·N^α from onsets that are intervals, some of them open: log-normal maximum likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize
from scipy.special import log_ndtr
from scipy.stats import t as student

from twoclocks.clocks.onset import Onset
from twoclocks.core.errors import UserError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """τ = a·N^α with log-normal scatter of standard deviation ``scatter`` (in ln τ)."""

    a: float
    alpha: float
    alpha_ci: tuple[float, float]  # 95%, by profile likelihood
    scatter: float
    points: int
    censored: int

    def predict(self, n: float) -> float:
        """Median onset at training-set size n."""
        return float(self.a * n**self.alpha)


def fit_law(sizes: Sequence[int], onsets: Sequence[Onset]) -> Law:
    """Fit over runs of different training-set sizes; censored onsets count for what they say, and no more.

    >>> sizes = [64, 128, 256, 512]
    >>> law = fit_law(sizes, [Onset(9 * n, 11 * n, "observed") for n in sizes])
    >>> round(law.alpha, 2)
    1.0
    """
    if len(sizes) != len(onsets):
        raise UserError(f"onsets: {len(onsets)} for {len(sizes)} sizes; give one a size")
    if not all(isinstance(one, Onset) for one in onsets):
        raise UserError("onsets: give Onset objects, as from tc.clocks.onset or run.clocks().memory")
    if min(sizes, default=0) < 1:
        raise UserError("sizes: they must be positive numbers; give the number of training samples of each run")
    if len(set(sizes)) < 3:
        raise UserError(f"sizes: {sorted(set(sizes))} cannot fix a power law; give runs of at least 3 sizes")
    definite = {n for n, o in zip(sizes, onsets, strict=True) if o.status == "observed" and o.lower > 0}
    if any(o.upper == 0 for o in onsets):
        raise UserError("onsets: one lies at step 0, before training; a power law cannot hold it")
    if len(definite) < 2:
        raise UserError(f"onsets: observed at {len(definite)} sizes only, the slope is not identified; run longer")
    log_n = np.log(np.asarray(sizes, dtype=np.float64))
    centre = float(log_n.mean())
    with np.errstate(divide="ignore"):
        lower = np.log(np.array([o.lower for o in onsets], dtype=np.float64))
        upper = np.log(np.array([o.upper for o in onsets], dtype=np.float64))
    return _fit(log_n - centre, lower, upper, centre, sum(o.status != "observed" for o in onsets))


def _fit(x: Floats, lower: Floats, upper: Floats, centre: float, censored: int) -> Law:
    def loss(intercept: float, slope: float, log_scatter: float) -> float:
        return -float(log_probability(lower, upper, intercept + slope * x, np.exp(log_scatter)).sum())

    seen = np.isfinite(lower) & np.isfinite(upper)
    slope, intercept = np.polyfit(x[seen], (lower[seen] + upper[seen]) / 2, 1)
    # Scatter below the resolution of the evaluations (a uniform onset in an interval has about a quarter of its width)
    # cannot be told from none, and the likelihood would be flat there.
    widths = (upper - lower)[np.isfinite(upper - lower)]
    floor = np.log(max(1e-3, 0.25 * float(np.median(widths)))) if len(widths) else np.log(1e-3)

    def profile(alpha: float) -> tuple[float, Floats]:
        best = minimize(
            lambda p: loss(p[0], alpha, p[1]),
            x0=np.array([intercept, np.log(0.2)]),
            method="L-BFGS-B",
            bounds=[(None, None), (floor, 3.0)],
        )
        return float(best.fun), best.x

    best = minimize(lambda p: profile(p[0])[0], x0=np.array([slope]), method="Nelder-Mead", options={"xatol": 1e-4})
    alpha = float(best.x[0])
    least, (shift, log_scatter) = profile(alpha)
    # Few runs: the likelihood-ratio cut whose coverage is exact for uncensored normal data (Student's t).
    spare = max(len(x) - 2, 1)
    cut = least + len(x) / 2 * np.log1p(student.ppf(0.975, df=spare) ** 2 / spare)
    low, high = (edge(lambda v: profile(v)[0] - cut, alpha, direction) for direction in (-1, 1))
    a = float(np.exp(shift - alpha * centre))
    if not np.isfinite([a, alpha]).all():
        raise UserError("onsets: the fit did not converge; check for onsets that contradict each other")
    return Law(a, alpha, (low, high), float(np.exp(log_scatter)), len(x), censored)


def log_probability(lower: Floats, upper: Floats, mean: Floats, scatter: float) -> Floats:
    """ln P(lower < ln τ ≤ upper), exact in both tails."""
    a, b = (lower - mean) / scatter, (upper - mean) / scatter
    flip = a > 0  # use the mirrored tail, where the difference of the two does not vanish
    big, small = np.where(flip, log_ndtr(-a), log_ndtr(b)), np.where(flip, log_ndtr(-b), log_ndtr(a))
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.log1p(-np.exp(np.minimum(small - big, 0.0)))
    found: Floats = np.maximum(np.where(np.isneginf(small), big, big + inside), -1e6)
    return found


def edge(excess: object, start: float, direction: int) -> float:
    """Where the profile likelihood falls below the cut, searched outwards in growing steps."""
    assert callable(excess)
    step, inner = 0.02, start
    for _ in range(40):
        outer = start + direction * step
        if excess(outer) > 0:
            return float(brentq(excess, min(inner, outer), max(inner, outer), xtol=1e-4))
        inner, step = outer, step * 1.6
    return direction * float("inf")
