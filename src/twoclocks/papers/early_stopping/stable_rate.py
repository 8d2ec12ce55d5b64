"""The largest learning rate at which training still converges, found by search: P2 compares optimizers at it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from twoclocks.core.errors import SettingError, UserError
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.columns import LOSS_TRAIN
from twoclocks.runs.settings import RunSettings
from twoclocks.training.errors import DivergedError

WINDOWS = 8  # into which a trial is divided, with a look at the end of each
TOLERANCE = 0.05  # by which the last loss may lie above the lowest
STRIDE = 4.0  # between rates until one converges and one does not


@dataclass(frozen=True)
class Trial:
    """One rate, tried with several seeds."""

    rate: float
    converges: bool
    losses: tuple[float, ...]  # at the end, one a seed; infinite where training diverged


@dataclass(frozen=True)
class StableRate:
    """The largest rate that converged for every seed, and the smallest that did not."""

    largest: float
    refused: float
    trials: tuple[Trial, ...]

    def __str__(self) -> str:
        return f"{self.largest:.3g} converges, {self.refused:.3g} does not ({len(self.trials)} rates tried)"

    def as_json(self) -> dict[str, Any]:
        trials = [
            {**asdict(one), "losses": [x if math.isfinite(x) else None for x in one.losses]} for one in self.trials
        ]
        return {"largest": self.largest, "refused": self.refused, "trials": trials}


def largest_stable_rate(
    settings: RunSettings,
    steps: int = 1000,
    seeds: int = 2,
    factor: float = 1.25,
    report: Callable[[Trial], None] = lambda trial: None,
) -> StableRate:
    """Search around ``training.learning_rate`` until a rate that converges and one that does not lie ``factor`` apart.

    A rate converges if for every seed the loss on training rows stays finite and ends, after ``steps`` steps, at most
    5% above its lowest look, the one before the first step included: a network that is trained to pieces and lies still
    has not converged, a rate too small to be seen has.
    """
    if not factor > 1:
        raise SettingError("factor", factor, "use a number above 1, such as 1.25")
    if steps < WINDOWS or seeds < 1:
        raise UserError(f"steps, seeds: {steps}, {seeds} are not allowed; use at least {WINDOWS} steps and one seed")
    trials: list[Trial] = []

    def converges(rate: float) -> bool:
        trials.append(attempt(settings, rate, steps, seeds))
        report(trials[-1])
        return trials[-1].converges

    good, bad, rate = 0.0, math.inf, settings.training.learning_rate
    while good == 0.0 or bad == math.inf:
        if not 1e-9 < rate < 1e9:
            raise UserError(f"training.learning_rate: no limit of stability between 1e-9 and 1e9 (last: {rate:g})")
        if converges(rate):
            good, rate = rate, rate * STRIDE
        else:
            bad, rate = rate, rate / STRIDE
    while bad / good > factor:
        rate = math.sqrt(good * bad)
        if converges(rate):
            good = rate
        else:
            bad = rate
    return StableRate(good, bad, tuple(trials))


def attempt(settings: RunSettings, rate: float, steps: int, seeds: int) -> Trial:
    losses = [window_losses(settings, rate, steps, settings.training.seed + seed) for seed in range(seeds)]
    settled = all(one[-1] <= (1 + TOLERANCE) * min(one) for one in losses)
    return Trial(rate, settled and all(math.isfinite(one[-1]) for one in losses), tuple(one[-1] for one in losses))


def window_losses(settings: RunSettings, rate: float, steps: int, seed: int) -> list[float]:
    """Losses on training rows at the start and at the ends of the windows; infinite from where training diverged."""
    ends = tuple(round(steps * k / WINDOWS) for k in range(WINDOWS + 1))
    training = replace(settings.training, learning_rate=rate, steps=steps, seed=seed)
    evaluation = replace(settings.evaluation, steps=ends)
    experiment = Experiment(replace(settings, training=training, evaluation=evaluation))
    found: list[float] = []
    # Always with the same noise: losses of different batches scatter more than rates differ.
    with suppress(DivergedError, FloatingPointError):
        experiment.train(lambda step, loss: found.append(experiment.losses()[LOSS_TRAIN]))
    return found + [math.inf] * (len(ends) - len(found))
