"""A number that is new at every training step, for dropout in networks whose inputs repeat.

A causal network reads the same rows again and again. Masks that are a hash of the row alone would give each training
sample one mask for the whole training. So the training loop tells the network a key that depends on (seed, step)
alone. Masks are then the same for any number of threads and after a resume. The key lies in memory of the device, so
each replay of a CUDA graph reads the key of its own step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from twoclocks.core.bits64 import scramble
from twoclocks.models.dropout import row_keys


class StepKey(nn.Module):
    """The key of the current step, and the keys of rows in it."""

    current: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("current", torch.zeros((), dtype=torch.int64), persistent=False)  # no part of the weights
        self.begun = False

    def begin(self, key: int) -> None:
        self.current.fill_(key)
        self.begun = True

    def forward(self, weights: Tensor, *inputs: Tensor) -> Tensor:
        """A hash (n,) of the step and of the rows of all inputs (n, …).

        A training loop that never calls ``begin`` has no key. The bits of some ``weights`` (1, …), which every update
        changes, take its place: still new at each step, but rounding errors of the weights then change the masks.
        """
        keys = self.current if self.begun else row_keys(weights)
        for part in inputs:
            keys = scramble(keys + row_keys(part))
        return keys
