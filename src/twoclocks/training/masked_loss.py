"""An auxiliary loss: the same task, with some entries of the network's input hidden.

P1 proposes to predict the parity of masked groups, so that a network represents the rule. Here every entry is hidden
with some probability, and the objective is asked for all of them as before: what is hidden can be known from the other
entries of its group alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from twoclocks.core.constants import MASK
from twoclocks.objectives.base import Network
from twoclocks.training.step import TrainingLoss


class MaskedLoss:
    """The loss of an objective, and ``weight`` times its loss where a ``share`` of the input's entries is hidden.

    Both come from one call of the network, on twice the rows: fused kernels use every weight once per step.
    """

    def __init__(self, objective: TrainingLoss, weight: float, share: float) -> None:
        self.objective, self.weight, self.share = objective, weight, share

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """What the objective draws, then which entries are hidden (n, entries)."""
        drawn = self.objective.draw(clean, generator)
        entries = clean.flatten(2).shape[2] if clean.dim() > 2 else clean.shape[1]
        hidden = torch.rand(len(clean), entries, generator=generator, device=clean.device) < self.share
        return *drawn, hidden

    def loss(self, network: Network, clean: Tensor, generator: torch.Generator) -> Tensor:
        return self.loss_given(network, clean, *self.draw(clean, generator))

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        twice = [torch.cat([each, each]) for each in (clean, *drawn[:-1])]
        hidden = torch.cat([torch.zeros_like(drawn[-1]), drawn[-1]])  # in the second half alone

        def half_blind(x: Tensor, *others: Any) -> Tensor:
            out: Tensor = network(hide(x, hidden), *others)
            return out

        plain, masked = self.objective.loss_given(half_blind, *twice).chunk(2)
        return plain + self.weight * masked


def hide(x: Tensor, hidden: Tensor) -> Tensor:
    """The input of a network with the hidden entries (n, entries) taken away: 0 in images, the mask in tokens.

    A causal network reads the mask as its start token. Its input is shifted by one place, and its first token, the
    start token itself, is never hidden.
    """
    if x.is_floating_point():
        return x.masked_fill(hidden.reshape(len(x), 1, *x.shape[2:]), 0.0)
    return x.masked_fill(hidden, MASK)
