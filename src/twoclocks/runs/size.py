"""The size of a run on disk, computed before it begins."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch

from twoclocks.models.base import ModelSettings
from twoclocks.runs.settings import RunSettings
from twoclocks.store.checkpoints import KEEP

ROW_BYTES = 4096  # an upper bound for a row of metrics, and of timings


class Size(NamedTuple):
    """Sizes in bytes."""

    weights: int  # of one network
    stored_weights: int  # of all weights that are stored for dissection
    whole: int  # of the run, at its largest


def size_of(settings: RunSettings) -> Size:
    assert settings.encoding is not None
    weights = weight_bytes(settings.model, settings.encoding.shape(settings.rule), settings.rule.symbols)
    stored_weights = weights * len(settings.weight_steps)
    entry = 1 if settings.rule.symbols <= 256 else 4
    sample = math.prod(settings.rule.shape) * entry + 8
    samples = min(settings.evaluation.keep_samples, settings.evaluation.samples) * sample
    copies = 3 + (settings.training.average > 0)  # with Adam's two moments and the average
    checkpoints = (KEEP + 1) * copies * weights
    return Size(
        weights, stored_weights, checkpoints + stored_weights + len(settings.schedule) * (samples + 2 * ROW_BYTES)
    )


@cache
def weight_bytes(model: ModelSettings, shape: tuple[int, ...], symbols: int) -> int:
    """Bytes of a network's weights; it is built without memory for them, so large ones take no longer."""
    with torch.device("meta"):
        network = model.build(shape, symbols)
    return sum(value.numel() * value.element_size() for value in network.state_dict().values())
