"""When will memory begin? From the run's own curve so far, and from what earlier runs tell beforehand."""

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
AHEAD = 1000.0  # how many times the last step the search for τ looks ahead
# Real curves are neither straight nor independent from one evaluation to the next. These three were chosen on nine
# curves of results/ and the demo's two: DiTs there rise with slopes of 4 to 6, GPTs with 15 to 22.
SLOPES = np.geomspace(1, 100, 30)  # of the logit of the copy rate against ln step
MEMORY = 2.0  # evaluations further back than this factor in steps count less and less
WORTH = 100  # independent samples that an evaluation is worth at most


@dataclass(frozen=True)
class Forecast:
    """The step at which memory is expected to begin."""

    median: float  # inf where high is
    low: float
    high: float  # inf where nothing that was seen bounds it
    level: float
    basis: str

    def remaining(self, step: float) -> tuple[float, float, float]:
        """Steps left at ``step``: low, median, high; never below 0."""
        return max(self.low - step, 0.0), max(self.median - step, 0.0), max(self.high - step, 0.0)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"after {self.low:,.0f}"
        return f"{self.median:,.0f} ({self.low:,.0f}–{self.high:,.0f})"

    def as_json(self) -> dict[str, Any]:
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


def forecast_size(law: Law, n: int, level: float = 0.95) -> Forecast:
    """For a run of n training samples, from the law of smaller ones."""
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
    """From the copies so far: the logit of the rate above chance grows linearly in ln step, with unknown slope.

    The posterior of (τ, slope) is computed on a grid. Recent evaluations count fully, older ones less (``MEMORY``).
    Without a ``prior`` (and its name) every ln τ from the first step to ``AHEAD`` times the last is as likely before.
    """
    step, hit, trial = checked_series(steps, copied, trials)
    if not 0 <= chance < threshold < 1:
        raise SettingError("threshold", threshold, f"use a number between the chance level {chance:g} and 1")
    if not 0 < level < 1:
        raise SettingError("level", level, "use a number between 0 and 1")
    kept = step > 0
    if not kept.any():
        raise UserError("steps: nothing was seen after step 0; evaluate once more")
    step, hit, trial = step[kept], hit[kept], trial[kept]
    grid = np.linspace(math.log(step[0]), math.log(step[-1] * AHEAD), 600)
    score = likelihood(np.log(step), hit, trial, grid, threshold, chance)
    if prior is not None:
        score = score + prior[0](grid)[:, None]
    weight = np.exp(score - score.max()).sum(1)
    below = np.cumsum(weight) / weight.sum()
    ends = [float(np.exp(np.interp(part, below, grid))) for part in ((1 - level) / 2, 0.5, (1 + level) / 2)]
    # A quantile among the last tenth of the grid is made by where the grid ends, not by data.
    ends = [math.inf if end > math.exp(grid[0] + 0.9 * (grid[-1] - grid[0])) else end for end in ends]
    basis = "copies so far" if prior is None else f"copies so far and {prior[1]}"
    if math.isinf(ends[2]) and prior is None:
        # Then the other quantiles are made by the grid too. All that is known is that it has not come yet.
        return Forecast(math.inf, float(step[-1]), math.inf, level, basis)
    return Forecast(math.inf if math.isinf(ends[2]) else ends[1], min(ends[0], ends[1]), ends[2], level, basis)


def likelihood(x: Floats, hit: Floats, trial: Floats, grid: Floats, threshold: float, chance: float) -> Floats:
    """ln likelihood (grid, slopes) of the counts, tempered by age."""
    age = np.exp(-(x[-1] - x) / math.log(MEMORY))
    recent = age > 1e-3
    x, hit, trial, age = x[recent], hit[recent], trial[recent], age[recent]
    worth = age * np.minimum(1.0, WORTH / trial)
    start = logit((threshold - chance) / (1 - chance))
    rate = chance + (1 - chance) * expit(start + SLOPES[:, None] * (x - grid[:, None, None]))
    found: Floats = (worth * (xlogy(hit, rate) + xlog1py(trial - hit, -rate))).sum(-1)
    return found


def student_prior(values: Sequence[float], blur: float) -> Prior:
    """The next of some normal values, whose mean and deviation are known from the earlier ones alone.

    ``blur`` is the variance with which each of them is known.
    """
    m = len(values)
    if m < 3:
        raise UserError(f"values: {m} earlier runs are too few to say how the next will differ; give at least 3")
    centre = float(np.mean(values))
    spread = math.sqrt((float(np.var(values, ddof=1)) + blur) * (1 + 1 / m))

    def density(ln_tau: Floats) -> Floats:
        z = (ln_tau - centre) / spread
        return -m / 2 * np.log1p(z**2 / (m - 1))

    return density


def gap_prior(gap: Onset, pilots: Sequence[tuple[Onset, Onset]]) -> tuple[Prior, str]:
    """From when the loss gap opened here, and how much later memory began in pilots (their gap and memory onsets).

    While the gap has not opened, all that is known is that it opens later than ``gap.lower``.
    """
    if gap.seen and gap.upper == 0:
        raise UserError("gap: it was open at step 0, before training; that foretells nothing")
    known = [(a, b) for a, b in pilots if a.estimate is not None and b.estimate is not None]
    ratios = [math.log((b.estimate or 0) / (a.estimate or 1)) for a, b in known]
    widths = [math.log(one.upper / one.lower) for pair in [*known, (gap, gap)] for one in pair if one.estimate]
    around = student_prior(ratios, blur=2 * float(np.mean(np.square(widths))) / 12 if widths else 0.0)
    name = f"the loss gap, with {len(ratios)} pilots"
    begin = gap.estimate if gap.estimate is not None else gap.upper if gap.seen else None
    if begin is not None:
        opened = math.log(begin)
        return (lambda ln_tau: around(ln_tau - opened)), name
    if gap.lower <= 0:
        return np.zeros_like, name
    least = math.log(gap.lower)

    def later(ln_tau: Floats) -> Floats:
        offsets = np.linspace(0, math.log(AHEAD), 60)  # the gap opens so much later, each as likely
        return np.asarray(np.logaddexp.reduce([around(ln_tau - least - offset) for offset in offsets], axis=0))

    return later, name
