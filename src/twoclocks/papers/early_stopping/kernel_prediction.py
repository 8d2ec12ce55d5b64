"""The onset of the gap that the kernel of infinite width predicts for one hidden layer, with nothing fitted."""

from __future__ import annotations

from functools import cache

from torch import Tensor

from twoclocks.data.encodings import Encoding
from twoclocks.data.sets import held_out
from twoclocks.data.settings import DataSettings
from twoclocks.objectives.fixed_noise import FixedNoise
from twoclocks.oracles.kernel_descent import KernelDescent
from twoclocks.rules.base import Rule
from twoclocks.runs.settings import RunSettings


def predicted_gap_onset(settings: RunSettings, threshold: float) -> float:
    """The step at which the losses of full-batch gradient descent in the NTK limit part by ``threshold``."""
    assert isinstance(settings.objective, FixedNoise) and settings.encoding is not None
    descent = kernel_descent(settings.rule, settings.encoding, settings.data, settings.objective.sigma)
    return descent.gap_onset(settings.training.learning_rate, threshold)


@cache
def kernel_descent(rule: Rule, encoding: Encoding, data: DataSettings, sigma: float) -> KernelDescent:
    """The predicted gradient descent on the training set of a run; cached, since it takes seconds."""
    rows = data.training_set(rule)
    train, test = (points(rule, encoding, part) for part in (rows, held_out(rule, rows, 128, data.seed)))
    # Large sets differ less between outputs, and take more memory.
    return KernelDescent(train, test, sigma, outputs=max(2, min(16, 4096 // len(train))))


def points(rule: Rule, encoding: Encoding, rows: Tensor) -> Tensor:
    """Encode rows as points (n, d), float64."""
    return encoding.encode(rule, rows).flatten(1).double()
