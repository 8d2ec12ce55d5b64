"""How many floating-point operations a training step takes, counted on a network without memory for its weights."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch

from twoclocks.models.base import ModelSettings
from twoclocks.runs.settings import RunSettings

BACKWARD = 2  # times the forward pass: gradients of inputs and of weights


def step_operations(settings: RunSettings) -> int:
    """Operations of the products of one training step, forward and backward; the optimizer is left out."""
    assert settings.encoding is not None
    forward = forward_operations(settings.model, settings.encoding.shape(settings.rule), settings.rule.symbols)
    rows = settings.training.batch * (2 if settings.training.masked_loss else 1)
    return (1 + BACKWARD) * rows * forward


@cache
def forward_operations(model: ModelSettings, shape: tuple[int, ...], symbols: int) -> int:
    """Operations of the products of a forward pass of one sample: two per multiplication and addition."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    # Tensors without memory that say they are on the CPU; with those on the device "meta", autocast does not work.
    with torch.random.fork_rng(devices=[]), FakeTensorMode(), torch.no_grad():
        network = model.build(shape, symbols).eval()
        # The counter does not know the CPU's fused attention. Products of masked positions count as well.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            network(*example_inputs(model, shape))
    return int(counter.get_total_flops())


def example_inputs(model: ModelSettings, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Inputs of one sample for the task of a network."""
    if model.task == "denoise images":
        return torch.zeros(1, *shape), torch.zeros(1)
    tokens = torch.zeros(1, math.prod(shape), dtype=torch.int64)
    return (tokens,) if model.task == "predict the next token" else (tokens, torch.zeros(1))
