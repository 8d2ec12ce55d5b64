"""The law τ = a·N^α from onsets that are intervals, some of them open."""

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

SIZES = 4  # different training-set sizes that a law needs, all but one with an observed onset: two fit every line


@dataclass(frozen=True)
class Law:
    """τ = a·N^α with scatter of standard deviation ``scatter`` in ln τ (log-normal), or of that scale (Weibull)."""

    a: float
    alpha: float
    alpha_ci: tuple[float, float]  # 95%, by profile likelihood
    scatter: float
    points: int
    censored: int
    r_squared: float | None  # of ln τ over the middles of closed intervals; None for fewer than 3
    sizes: tuple[int, ...]
    definition: str | None
    family: Family
    centre: float  # mean ln N of the runs
    covariance: tuple[tuple[float, float], tuple[float, float]]  # of ln τ at the centre and of α

    def predict(self, n: float) -> float:
        """Median onset at training-set size n."""
        return math.exp(min(math.log(self.a) + self.alpha * math.log(n), 700.0))

    def predict_interval(self, n: float, level: float = 0.95) -> tuple[float, float]:
        """Where the onset of one new run of this size lies with probability ``level``."""
        if not n >= 1:
            raise SettingError("n", n, "use a number of training samples, at least 1")
        if not 0 < level < 1:
            raise SettingError("level", level, "use a number between 0 and 1")
        if self.family != "log-normal":
            raise UserError(f"family: intervals of new runs are made for log-normal laws, not {self.family}")
        definite = self.points - self.censored
        spare = max(definite - 2, 1)
        at = np.array([1.0, math.log(n) - self.centre])
        # The likelihood's variance is too small by the degrees of freedom that the fit used up.
        variance = (self.scatter**2 + float(at @ np.array(self.covariance) @ at)) * definite / spare
        reach = float(stdtrit(spare, (1 + level) / 2)) * math.sqrt(variance)
        middle = self.predict(n)
        return middle * math.exp(-min(reach, 700.0)), middle * math.exp(min(reach, 700.0))

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
    """Fit over runs of different training-set sizes; censored onsets count for what they say, and no more.

    >>> sizes = [64, 128, 256, 512]
    >>> law = fit_law(sizes, [Onset(9 * n, 11 * n, "observed") for n in sizes])
    >>> round(law.alpha, 2)
    1.0
    """
    definition = check_points(sizes, onsets)
    return fit_checked(sizes, onsets, family, definition)


def fit_checked(sizes: Sequence[int], onsets: Sequence[Onset], family: Family, definition: str | None) -> Law:
    """The fit itself; three sizes suffice here, for a law that is only there to be judged."""
    log_n = np.log(np.asarray(sizes, dtype=np.float64))
    centre = float(log_n.mean())
    design = np.column_stack([np.ones_like(log_n), log_n - centre])
    regression = Regression(design, *log_intervals(onsets), family)
    best = regression.fit()
    shift, alpha, log_scatter = best[1]
    if family == "Weibull":  # of which the location is not the median
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
        censored=len(onsets) - regression.definite,
        r_squared=explained(shift + alpha * design[:, 1], onsets),
        sizes=tuple(sorted({int(n) for n in sizes})),
        definition=definition,
        family=family,
        centre=centre,
        covariance=((float(spread[0, 0]), float(spread[0, 1])), (float(spread[1, 0]), float(spread[1, 1]))),
    )


def log_intervals(onsets: Sequence[Onset]) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore"):
        lower = np.log(np.array([one.lower for one in onsets], dtype=np.float64))
        upper = np.log(np.array([one.upper for one in onsets], dtype=np.float64))
    return lower, upper


def explained(mean: Floats, onsets: Sequence[Onset]) -> float | None:
    """R² of ln τ over the middles of closed intervals; below 0 where a constant would do better."""
    pairs = [(math.log(one.middle), at) for one, at in zip(onsets, mean, strict=True) if one.middle is not None]
    if len(pairs) < 3:
        return None
    seen, fitted = np.array(pairs).T
    whole = float(((seen - seen.mean()) ** 2).sum())
    return None if whole == 0 else 1 - float(((seen - fitted) ** 2).sum()) / whole


def check_points(sizes: Sequence[int], onsets: Sequence[Onset], least: int = SIZES) -> str | None:
    """Refuse what cannot fix a law, with the reason; the definition that the onsets share."""
    if len(sizes) != len(onsets):
        raise UserError(f"onsets: {len(onsets)} for {len(sizes)} sizes; give one a size")
    if not all(isinstance(one, Onset) for one in onsets):
        raise UserError("onsets: give Onset objects, as from tc.clocks.onset or run.clocks().memory")
    if min(sizes, default=0) < 1:
        raise UserError("sizes: they must be positive numbers; give the number of training samples of each run")
    definitions = sorted({one.definition for one in onsets if one.definition is not None})
    if len(definitions) > 1:
        raise UserError(f"onsets: of different definitions ({'; '.join(definitions)}); fit them apart")
    if len(set(sizes)) < least:
        given = ", ".join(f"{n:,}" for n in sorted(set(sizes)))
        raise UserError(f"sizes: {given} cannot fix a power law; give runs of at least {least} sizes")
    if any(one.upper == 0 for one in onsets):
        raise UserError("onsets: one lies at step 0, before training; a power law cannot hold it")
    definite = {n for n, one in zip(sizes, onsets, strict=True) if one.status == "observed" and one.lower > 0}
    needed = max(1, least - 1)
    if len(definite) < needed:
        fix = f"the slope is not identified; run longer, until at least {needed} have one"
        raise UserError(f"onsets: observed at {len(definite)} sizes only, {fix}")
    return definitions[0] if definitions else None
