"""The memory that a run needs at the least, estimated from its settings before anything is built."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from twoclocks.core.errors import SettingError
from twoclocks.core.memory import memory_limit
from twoclocks.data.sets import BLOCKS
from twoclocks.runs.settings import RunSettings
from twoclocks.runs.size import weight_bytes

INTEGER, REAL = 8, 4  # bytes of a symbol and of a number


class Need(NamedTuple):
    """What a setting costs."""

    field: str
    value: object
    size: int  # bytes
    smaller: str  # what to make smaller
    on_device: bool  # whether this is memory of the training device


class TooLargeError(SettingError):
    """A run does not fit into the memory of this machine; a larger one may have room for it."""


def memory_needs(settings: RunSettings) -> list[Need]:
    """Lower bounds: weights, average, gradients, Adam's moments; what a backward pass keeps; samples; data; tables."""
    assert settings.encoding is not None
    rule, training, evaluation = settings.rule, settings.training, settings.evaluation
    entries, shape = math.prod(rule.shape), settings.encoding.shape(rule)
    row = entries * INTEGER + math.prod(shape) * REAL  # of a sample, as symbols and encoded
    copies = (2 if training.optimizer == "sgd" else 4) + (training.average > 0)
    weights = copies * weight_bytes(settings.model, shape, rule.symbols)
    kept = settings.model.activations(shape, rule.symbols) * REAL
    score = settings.encoding.score_bytes(rule)
    rows = max((settings.data.part + 1) * settings.data.n, BLOCKS[0])
    smaller = "a smaller {}".format
    return [
        Need("model", settings.model.title, weights, "a smaller model.width or model.depth", True),
        Need("training.batch", training.batch, training.batch * kept, "a smaller training.batch or model.width", True),
        Need("evaluation.samples", evaluation.samples, evaluation.samples * (row + score), smaller("number"), True),
        Need("evaluation.loss_rows", evaluation.loss_rows, 3 * evaluation.loss_rows * row, smaller("number"), True),
        Need("data.n", settings.data.n, rows * row, "a smaller data.n or data.part", False),
        Need("rule", str(rule), rule.table_bytes(), "a smaller rule", False),
    ]


def check_memory(settings: RunSettings) -> None:
    """Refuse a run that cannot fit into the memory of this machine, or of its GPU, whatever else runs there."""
    needs = memory_needs(settings)
    here = memory_limit()
    if settings.training.on_gpu:
        device = torch.cuda.get_device_properties(settings.training.device).total_memory
        _compare([need for need in needs if need.on_device], device, settings.training.device)
        needs = [need for need in needs if not need.on_device]
    _compare(needs, here, "this machine")


def _compare(needs: list[Need], limit: int | None, place: str) -> None:
    total = sum(need.size for need in needs)
    if limit is not None and total > limit:
        worst = max(needs, key=lambda need: need.size)
        sizes = (
            f"the run needs {total / 1e9:,.1f} GB of memory or more and does not fit: {place} has {limit / 1e9:,.1f} GB"
        )
        raise TooLargeError(worst.field, worst.value, f"{sizes}; use {worst.smaller}")
