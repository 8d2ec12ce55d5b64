"""The learning rate of each step: constant, or with a linear warm-up and a cosine decay."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def rate_factor(step: int, warm_up: int, decay_steps: int) -> float:
    """By what the learning rate is multiplied at step 1, 2, …: 1 after the warm-up, 0 at ``decay_steps``.

    >>> [round(rate_factor(step, warm_up=4, decay_steps=12), 3) for step in (1, 2, 4, 6, 8, 12)]
    [0.25, 0.5, 1.0, 0.854, 0.5, 0.0]
    >>> [rate_factor(step, warm_up=0, decay_steps=0) for step in (1, 1000)]
    [1.0, 1.0]
    """
    if step < warm_up:
        return step / warm_up
    if not decay_steps:
        return 1.0
    return 0.5 + 0.5 * math.cos(math.pi * min((step - warm_up) / (decay_steps - warm_up), 1.0))


class LearningRate:
    """Gives the optimizer the rate of a step, from the step's number alone: a resumed run has the same rates.

    A rate that is a tensor is changed where it lies, since a CUDA graph reads it there.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, warm_up: int, decay_steps: int) -> None:
        self.groups, self.warm_up, self.decay_steps = optimizer.param_groups, warm_up, decay_steps
        for group in self.groups:
            group.setdefault("initial_lr", float(group["lr"]))  # torch's schedulers use this name too

    def begin(self, step: int) -> None:
        """To be called before the update of this step."""
        if not (self.warm_up or self.decay_steps):
            return
        factor = rate_factor(step, self.warm_up, self.decay_steps)
        for group in self.groups:
            rate = group["initial_lr"] * factor
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
