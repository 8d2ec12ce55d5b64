"""An objective of your own: flow matching along straight lines, sampled with Euler's method.

Save this file, change it, and use it:

    twoclocks list templates objective > my_objective.py
    twoclocks list objectives --import my_objective.py
    twoclocks run demo --import my_objective.py --objective.name straight_flow
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.objectives.base import OBJECTIVES, Network, Objective, Task


@OBJECTIVES.register("straight_flow")  # the name in settings: --objective.name straight_flow
@dataclass(frozen=True, kw_only=True)
class StraightFlow(Objective):
    """Predict the velocity clean − noise at x_t = (1 − t)·noise + t·clean."""

    kind: ClassVar[str] = "image"  # of its samples: "image" or "tokens"
    task: ClassVar[Task] = "denoise images"  # what it asks of a network: here F(image (n, *shape), label (n,))
    sampler_steps: int = setting(32, "Euler steps of the sampler", at_least=1, at_most=10_000)

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """All randomness of the loss, one row per sample: times t (n,) and noise (n, *shape)."""
        times = torch.rand(len(clean), generator=generator, device=clean.device, dtype=clean.dtype)
        noise = torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype)
        return times, noise

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """Loss (n,) of each sample, not averaged over the batch."""
        times, noise = drawn
        t = times.reshape(-1, *[1] * (clean.dim() - 1))
        velocity = network((1 - t) * noise + t * clean, times)
        return (velocity - (clean - noise)).square().flatten(1).mean(dim=1)

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """All randomness of n samples; the sampler must be a deterministic function of it, row by row."""
        return torch.randn((n, *shape), generator=generator, device=generator.device)

    @property
    def levels(self) -> int:
        """How many times ``reverse_step`` is called."""
        return self.sampler_steps

    def begin(self, network: Network, noise: Tensor) -> Tensor:
        """The state before the first step."""
        return noise

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        """The step from t = level/steps to t = (level + 1)/steps."""
        times = state.new_full((len(state),), level / self.sampler_steps)
        return state + network(state, times) / self.sampler_steps

    def finish(self, state: Tensor) -> Tensor:
        """Encoded samples (n, *shape) from the state after the last step."""
        return state


# In a test of yours:
#     from twoclocks import models
#     from twoclocks.testing import check_objective
#     check_objective(StraightFlow(), models.create("dit", width=32, depth=1, heads=2), (1, 2, 4), 2)
