"""Fit the law τ = a·N^α to onsets that are known as intervals, some of them censored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.regression import Family, Regression
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import SettingError, UserError

SIZES = 4  # training-set sizes that a law needs, all but one with an observed onset: a line fits any two points

LEAST_EXPLAINED = 0.5  # R² below which a fit is no law


@dataclass(frozen=True)
class Law:
    """The law τ = a·N^α; ``scatter`` is the standard deviation of ln τ (log-normal), or its scale (Weibull)."""

    a: float
    alpha: float
    alpha_ci: tuple[float, float]  # 95%, by profile likelihood
    scatter: float
    points: int
    censored: int
    r_squared: float | None  # of ln τ at the middles of closed intervals; None for fewer than 3
    sizes: tuple[int, ...]
    definition: str | None
    family: Family
    centre: float  # mean ln N of the runs
    covariance: tuple[tuple[float, float], tuple[float, float]]  # of ln τ at the centre and of α

    def predict(self, n: float) -> float:
        """Median onset at training-set size n."""
        return math.exp(min(math.log(self.a) + self.alpha * math.log(n), 700.0))

    def predict_interval(self, n: float, level: float = 0.95) -> tuple[float, float]:
        """Prediction interval: the onset of one new run of this size lies in it with probability ``level``."""
        return self._interval(n, level, self.scatter**2)

    def median_interval(self, n: float, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the law itself: of the median onset at this size, over many runs."""
        return self._interval(n, level, 0.0)

    def _interval(self, n: float, level: float, scatter: float) -> tuple[float, float]:
        """The interval of ln τ from the uncertainty of the fit, and the variance of single runs around it."""
        if not n >= 1:
            raise SettingError("n", n, "use a number of training samples, at least 1")
        if not 0 < level < 1:
            raise SettingError("level", level, "use a number between 0 and 1")
        if self.family != "log-normal":
            raise UserError(f"family: intervals of onsets exist for log-normal laws only, not for {self.family}")
        uncensored = self.points - self.censored
        freedom = max(uncensored - 2, 1)
        at = np.array([1.0, math.log(n) - self.centre])
        # The maximum-likelihood variance is too small by the degrees of freedom of the fit.
        variance = (scatter + float(at @ np.array(self.covariance) @ at)) * uncensored / freedom
        reach = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(variance)
        middle = self.predict(n)
        return middle * math.exp(-min(reach, 700.0)), middle * math.exp(min(reach, 700.0))

    @property
    def weakness(self) -> str:
        """Why these onsets show no power law, although one was fitted; empty where they do."""
        low, high = self.alpha_ci
        if low <= 0 <= high:
            return f"the 95% interval of α, {low:z.2f} to {high:z.2f}, contains 0"
        if self.r_squared is not None and self.r_squared < LEAST_EXPLAINED:
            return f"R² is {self.r_squared:z.2f}, below {LEAST_EXPLAINED:g}"
        return ""

    def as_json(self) -> dict[str, Any]:
        low, high = self.alpha_ci
        return {
            "a": self.a,
            "alpha": self.alpha,
            "alpha_ci": [low if math.isfinite(low) else None, high if math.isfinite(high) else None],
            "scatter": self.scatter,
            "points": self.points,
            "censored": self.censored,
            "r_squared": self.r_squared,
            "sizes": list(self.sizes),
            "definition": self.definition,
            "family": self.family,
        }


def fit_law(sizes: Sequence[int], onsets: Sequence[Onset], family: Family = "log-normal") -> Law:
    """Fit a law to runs of different training-set sizes; censored onsets enter with their censored likelihood.

    >>> sizes = [64, 128, 256, 512]
    >>> law = fit_law(sizes, [Onset(9 * n, 11 * n, "observed") for n in sizes])
    >>> round(law.alpha, 2)
    1.0
    """
    definition = check_points(sizes, onsets)
    return fit_law_unchecked(sizes, onsets, family, definition)


def fit_law_unchecked(sizes: Sequence[int], onsets: Sequence[Onset], family: Family, definition: str | None) -> Law:
    """Fit a law without checking its input; three sizes suffice here, to test forecasts on left-out sizes."""
    log_n = np.log(np.asarray(sizes, dtype=np.float64))
    centre = float(log_n.mean())
    design = np.column_stack([np.ones_like(log_n), log_n - centre])
    regression = Regression(design, *log_intervals(onsets), family)
    best = regression.fit()
    shift, alpha, log_scatter = best[1]
    if family == "Weibull":  # its location is not its median
        shift += math.log(math.log(2)) * math.exp(log_scatter)
    log_a = shift - alpha * centre
    if not np.isfinite([best[0], log_a, alpha]).all() or abs(log_a) > 600:
        fix = "check for onsets that contradict each other, or sizes that are nearly the same"
        raise UserError(f"onsets: no law fits them (exponent {alpha:.3g}); {fix}")
    spread = regression.covariance(best[1])
    return Law(
        a=math.exp(log_a),
        alpha=float(alpha),
        alpha_ci=regression.interval(1, best),
        scatter=math.exp(log_scatter),
        points=len(onsets),
        censored=len(onsets) - regression.uncensored,
        r_squared=r_squared(shift + alpha * design[:, 1], onsets),
        sizes=tuple(sorted({int(n) for n in sizes})),
        definition=definition,
        family=family,
        centre=centre,
        covariance=((float(spread[0, 0]), float(spread[0, 1])), (float(spread[1, 0]), float(spread[1, 1]))),
    )


def log_intervals(onsets: Sequence[Onset]) -> tuple[Floats, Floats]:
    """Logarithms of the lower and upper ends of onsets; infinite where an end is open."""
    with np.errstate(divide="ignore"):
        lower = np.log(np.array([one.lower for one in onsets], dtype=np.float64))
        upper = np.log(np.array([one.upper for one in onsets], dtype=np.float64))
    return lower, upper


def r_squared(mean: Floats, onsets: Sequence[Onset]) -> float | None:
    """R² of ln τ at the middles of closed intervals; negative where a constant fits better."""
    pairs = [(math.log(one.middle), at) for one, at in zip(onsets, mean, strict=True) if one.middle is not None]
    if len(pairs) < 3:
        return None
    seen, fitted = np.array(pairs).T
    total = float(((seen - seen.mean()) ** 2).sum())
    return None if total == 0 else 1 - float(((seen - fitted) ** 2).sum()) / total


def check_points(sizes: Sequence[int], onsets: Sequence[Onset], least: int = SIZES) -> str | None:
    """Raise UserError if the onsets do not identify a law; return the definition that they share."""
    definition = check_onsets(sizes, onsets)
    if len(set(sizes)) < least:
        given = ", ".join(f"{n:,}" for n in sorted(set(sizes)))
        raise UserError(f"sizes: {given} do not identify a power law; give runs of at least {least} sizes")
    observed = {n for n, one in zip(sizes, onsets, strict=True) if one.status == "observed" and one.lower > 0}
    needed = max(1, least - 1)
    if len(observed) < needed:
        fix = f"the slope is not identified; run longer, until at least {needed} have one"
        raise UserError(f"onsets: observed at {len(observed)} sizes only, {fix}")
    return definition


def check_onsets(sizes: Sequence[int], onsets: Sequence[Onset]) -> str | None:
    """Raise UserError unless there is one onset per size, all of one definition; return that definition."""
    if len(sizes) != len(onsets):
        raise UserError(f"onsets: {len(onsets)} for {len(sizes)} sizes; give one per size")
    if not all(isinstance(one, Onset) for one in onsets):
        raise UserError("onsets: give Onset objects, as from tc.clocks.onset or run.clocks().memory")
    if min(sizes, default=0) < 1:
        raise UserError("sizes: they must be positive numbers; give the number of training samples of each run")
    definitions = sorted({one.definition for one in onsets if one.definition is not None})
    if len(definitions) > 1:
        raise UserError(f"onsets: they have different definitions ({'; '.join(definitions)}); fit them separately")
    if any(one.upper == 0 for one in onsets):
        raise UserError("onsets: one lies at step 0, before training; a power law has no such onset")
    return definitions[0] if definitions else None
