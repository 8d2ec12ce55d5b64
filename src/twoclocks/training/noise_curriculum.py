"""A curriculum over noise levels: training begins with more noise, or less, than the objective has."""

from __future__ import annotations

import torch
from torch import Tensor

from twoclocks.objectives.base import Network, Objective


class NoiseCurriculum:
    """The loss of an objective whose noise is shifted at first, by ``Objective.noise_shift`` of each step."""

    def __init__(self, objective: Objective, device: torch.device) -> None:
        self.objective = objective
        self.shift = torch.zeros((), device=device)  # where a CUDA graph reads it

    def begin(self, step: int) -> None:
        """Prepare step 1, 2, …; to be called outside of a CUDA graph."""
        self.shift.fill_(self.objective.noise_shift(step))

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        return self.objective.with_shift(self.shift, *self.objective.draw(clean, generator))

    def loss(self, network: Network, clean: Tensor, generator: torch.Generator) -> Tensor:
        return self.loss_given(network, clean, *self.draw(clean, generator))

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        return self.objective.loss_given(network, clean, *drawn)
