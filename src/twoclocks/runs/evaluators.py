"""The evaluator of a run, from its settings: while it trains, and when its samples are read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.data.sets import holdout_set, natural_held_out
from twoclocks.evaluation.evaluator import Evaluator
from twoclocks.runs.settings import RunSettings

if TYPE_CHECKING:
    from torch import Tensor


def make_evaluator(settings: RunSettings, train: Tensor, device: str = "cpu") -> Evaluator:
    """The evaluator of a run, with everything that samples are compared with, on a device."""
    rule, data = settings.rule, settings.data
    holdout = holdout_set(rule, train, data.seed)
    held_out = natural_held_out(rule, train, data.seed)
    mirrored = data.augment and rule.is_image
    return Evaluator(rule, train.to(device), settings.evaluation, holdout, data.omitted(rule), held_out, mirrored)
