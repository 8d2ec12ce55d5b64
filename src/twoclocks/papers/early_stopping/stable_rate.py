"""Search for the largest learning rate at which training converges; P2 compares optimizers at this rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from twoclocks.core.errors import SettingError, UserError
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.columns import LOSS_TRAIN
from twoclocks.runs.settings import RunSettings
from twoclocks.training.errors import DivergedError

Map: TypeAlias = Callable[[Callable[[int], list[float]], range], Iterable[list[float]]]
MEASUREMENTS = 24  # of the loss in a trial: at the start, then evenly spaced in the logarithm of the step
TOLERANCE = 0.05  # a loss may be higher than the lowest before it by this share
STRIDE = 4.0  # factor between rates, until one converges and one does not


class RisesError(Exception):
    """The loss rose: this rate has not converged, whatever comes."""


@dataclass(frozen=True)
class Trial:
    """The outcome of one learning rate, tried with several seeds."""

    rate: float
    converges: bool
    losses: tuple[float, ...]  # at the end, one per seed; infinite where training ended early


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
    each: Map = map,
) -> StableRate:
    """Search around ``training.learning_rate`` until a rate that converges and one that does not lie ``factor`` apart.

    A rate converges if, for every seed, the loss on training rows stays finite and is never more than 5% above a
    measurement before, the one before the first step included. So a network that was destroyed by large steps has not
    converged, even if its loss is constant, and neither has one whose loss jumps up and down; a rate so small that
    nothing changes has. ``each`` works like ``map`` and may train the seeds of a rate at the same time.
    """
    if not factor > 1:
        raise SettingError("factor", factor, "use a number above 1, such as 1.25")
    if steps < MEASUREMENTS or seeds < 1:
        fix = f"use at least {MEASUREMENTS} steps and one seed"
        raise UserError(f"steps, seeds: {steps}, {seeds} are not allowed; {fix}")
    trials: list[Trial] = []

    def converges(rate: float) -> bool:
        trials.append(try_rate(settings, rate, steps, seeds, each))
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


def try_rate(settings: RunSettings, rate: float, steps: int, seeds: int, each: Map = map) -> Trial:
    """Train with a learning rate and several seeds, of the data too, and decide if it converges."""
    train = partial(trial_losses, settings, rate, steps)
    losses = list(each(train, range(settings.training.seed, settings.training.seed + seeds)))
    return Trial(rate, all(map(falls, losses)), tuple(one[-1] for one in losses))


def falls(losses: Sequence[float]) -> bool:
    """Whether a loss is finite, and never more than 5% above one before.

    >>> falls([2, 1, 1.04]), falls([2, 1, 1.2, 0.9]), falls([2, 1, math.inf])
    (True, False, False)
    """
    lowest = accumulate(losses, min)
    return all(math.isfinite(loss) and loss <= (1 + TOLERANCE) * low for loss, low in zip(losses, lowest, strict=True))


def trial_losses(settings: RunSettings, rate: float, steps: int, seed: int) -> list[float]:
    """Losses on training rows at the start and during training; training ends when they rise, the rest is infinite."""
    # The first steps are the largest: a loss that explodes and falls again within tens of steps must be seen.
    ends = tuple(sorted({0, *(round(step) for step in np.geomspace(1, steps, MEASUREMENTS))}))
    training = replace(settings.training, learning_rate=rate, steps=steps, seed=seed)
    evaluation = replace(settings.evaluation, steps=ends)
    data = replace(settings.data, seed=settings.data.seed + seed - settings.training.seed)
    experiment = Experiment(replace(settings, training=training, evaluation=evaluation, data=data))
    found: list[float] = []

    def measure(step: int, loss: float) -> None:
        # With the same noise every time: losses of different batches vary more than those of different rates.
        found.append(experiment.losses()[LOSS_TRAIN])
        if not falls(found):
            raise RisesError

    with suppress(DivergedError, FloatingPointError, RisesError):
        experiment.train(measure)
    return found + [math.inf] * (len(ends) - len(found))
