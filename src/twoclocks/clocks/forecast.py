"""Forecast of τ_mem from a run's copy rate so far, and from earlier runs as a prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, xlog1py, xlogy

from twoclocks.clocks.law import Law
from twoclocks.clocks.onset import Numbers, Onset, checked_series
from twoclocks.core.arrays import Floats
from twoclocks.core.errors import SettingError, UserError

Prior = Callable[[Floats], Floats]  # ln density of ln τ, up to a constant
AHEAD = 1000.0  # the largest τ considered, in multiples of the last step
# Measured curves are not exactly linear, and evaluations are not independent. These three constants were chosen on
# nine curves of results/ and the demo's two: there DiTs rise with slopes of 4 to 6, GPTs with 15 to 22.
SLOPES = np.geomspace(1, 100, 30)  # of the logit of the copy rate against ln step
FORGETTING = 2.0  # evaluations that lie more than this factor in steps before the last one have little weight
MOST_AT_ONCE = 1 << 18  # numbers of one array: a run may have thousands of evaluations
MOST_SAMPLES = 100  # most independent samples that one evaluation counts for


@dataclass(frozen=True)
class Forecast:
    """A forecast of the step at which memory begins: median and interval."""

    median: float  # inf if high is
    low: float
    high: float  # inf if the data give no upper bound
    level: float
    basis: str

    def remaining(self, step: float) -> tuple[float, float, float]:
        """Steps that remain after ``step``: low, median, high; never below 0."""
        return max(self.low - step, 0.0), max(self.median - step, 0.0), max(self.high - step, 0.0)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"after {self.low:,.0f}"
        return f"{self.median:,.0f} ({self.low:,.0f}–{self.high:,.0f})"

    def as_json(self) -> dict[str, Any]:
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


def forecast_size(law: Law, n: int, level: float = 0.95) -> Forecast:
    """Forecast for a run of n training samples, from the law of smaller runs."""
    low, high = law.predict_interval(n, level)
    return Forecast(law.predict(n), low, high, level, f"law of {law.points} runs")


def forecast_run(
    steps: Numbers,
    copied: Numbers,
    trials: int | Numbers,
    threshold: float,
    chance: float = 0.0,
    prior: tuple[Prior, str] | None = None,
    level: float = 0.95,
) -> Forecast:
    """Forecast of a run from its copies so far.

    Model: the logit of the copy rate above chance grows linearly in ln step, with unknown slope. The posterior of
    (τ, slope) is computed on a grid. Recent evaluations have full weight, older ones less (``FORGETTING``). The default
    prior is uniform in ln τ, from the last step to ``AHEAD`` times that; ``prior`` is another one with its name. Both
    are conditioned on τ after the last step, since memory has not begun: no forecast is a step in the past.
    """
    step, hit, trial = checked_series(steps, copied, trials)
    if not 0 <= chance < threshold < 1:
        raise SettingError("threshold", threshold, f"use a number between the chance level {chance:g} and 1")
    if not 0 < level < 1:
        raise SettingError("level", level, "use a number between 0 and 1")
    positive = step > 0
    if not positive.any():
        raise UserError("steps: there is no evaluation after step 0; evaluate once more")
    step, hit, trial = step[positive], hit[positive], trial[positive]
    now = float(step[-1])
    grid = np.linspace(math.log(now), math.log(now * AHEAD), 600)
    score = log_likelihood(np.log(step), hit, trial, grid, threshold, chance)
    if prior is not None:
        score = score + prior[0](grid)[:, None]
    weight = np.exp(score - score.max()).sum(1)
    below = np.cumsum(weight) / weight.sum()
    # exp(log(now)) may be smaller than now by a rounding error.
    parts = (1 - level) / 2, 0.5, (1 + level) / 2
    ends = [max(now, float(np.exp(np.interp(part, below, grid)))) for part in parts]
    # A quantile in the last tenth of the grid depends on where the grid ends, not on data.
    ends = [math.inf if end > math.exp(grid[0] + 0.9 * (grid[-1] - grid[0])) else end for end in ends]
    basis = "copies so far" if prior is None else f"copies so far and {prior[1]}"
    if math.isinf(ends[2]) and prior is None:
        # Then the other quantiles depend on the grid too. The data only say that memory has not begun yet.
        return Forecast(math.inf, now, math.inf, level, basis)
    return Forecast(math.inf if math.isinf(ends[2]) else ends[1], min(ends[0], ends[1]), ends[2], level, basis)


def log_likelihood(x: Floats, hit: Floats, trial: Floats, grid: Floats, threshold: float, chance: float) -> Floats:
    """Log-likelihood (grid, slopes) of the counts, with smaller weights for older evaluations."""
    age = np.exp(-(x[-1] - x) / math.log(FORGETTING))
    recent = age > 1e-3
    x, hit, trial, age = x[recent], hit[recent], trial[recent], age[recent]
    weight = age * np.minimum(1.0, MOST_SAMPLES / trial)
    start = logit((threshold - chance) / (1 - chance))
    found = []
    for part in np.array_split(grid, 1 + len(grid) * len(SLOPES) * len(x) // MOST_AT_ONCE):
        rate = chance + (1 - chance) * expit(start + SLOPES[:, None] * (x - part[:, None, None]))
        found.append((weight * (xlogy(hit, rate) + xlog1py(trial - hit, -rate))).sum(-1))
    return np.concatenate(found)


def student_prior(values: Sequence[float], error_variance: float) -> Prior:
    """Predictive density of the next of some normal values (Student's t), with mean and variance from the earlier ones.

    ``error_variance`` is the measurement variance of each value.
    """
    m = len(values)
    if m < 3:
        raise UserError(f"values: {m} earlier runs are too few to estimate their spread; give at least 3")
    centre = float(np.mean(values))
    spread = math.sqrt((float(np.var(values, ddof=1)) + error_variance) * (1 + 1 / m))

    def density(ln_tau: Floats) -> Floats:
        z = (ln_tau - centre) / spread
        return -m / 2 * np.log1p(z**2 / (m - 1))

    return density


def gap_prior(gap: Onset, pilots: Sequence[tuple[Onset, Onset]]) -> tuple[Prior, str]:
    """Prior of ln τ_mem from the onset of the run's loss gap and from pilot runs (their gap and memory onsets).

    Pilots give the distribution of τ_mem/τ_gap. While the gap has not opened, it is known to open after ``gap.lower``.
    """
    if gap.seen and gap.upper == 0:
        raise UserError("gap: it was open at step 0, before training; it cannot predict τ_mem")
    known = [(a, b) for a, b in pilots if a.estimate is not None and b.estimate is not None]
    ratios = [math.log((b.estimate or 0) / (a.estimate or 1)) for a, b in known]
    widths = [math.log(one.upper / one.lower) for pair in [*known, (gap, gap)] for one in pair if one.estimate]
    around = student_prior(ratios, error_variance=2 * float(np.mean(np.square(widths))) / 12 if widths else 0.0)
    name = f"the loss gap, with {len(ratios)} pilots"
    begin = gap.estimate if gap.estimate is not None else gap.upper if gap.seen else None
    if begin is not None:
        opened = math.log(begin)
        return (lambda ln_tau: around(ln_tau - opened)), name
    if gap.lower <= 0:
        return np.zeros_like, name
    least = math.log(gap.lower)

    def later(ln_tau: Floats) -> Floats:
        offsets = np.linspace(0, math.log(AHEAD), 60)  # how much later the gap opens in ln step, all equally likely
        return np.asarray(np.logaddexp.reduce([around(ln_tau - least - offset) for offset in offsets], axis=0))

    return later, name
