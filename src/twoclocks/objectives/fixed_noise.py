"""Denoising score matching at one noise level (P2 App. G): predict the noise ε in y = x + σε.

The optimum is −σ·∇log p_σ(y), where p_σ is the training set with Gaussian noise of width σ. With fresh noise at every
step the expectation of this loss is that of fitting the empirical score, up to a constant. (Fitting the score directly
would have the same expected gradient, but the objective would need the whole training set.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.objectives.base import OBJECTIVES, Denoiser, Network, Objective, Task


@OBJECTIVES.register("fixed_noise")
@dataclass(frozen=True, kw_only=True)
class FixedNoise(Objective):
    """Predict the noise at one fixed σ; the loss of the zero function is 1.

    Samples start as a standard normal plus noise of width σ and are denoised repeatedly, x ← x − σ f(x).
    """

    kind: ClassVar[str] = "image"
    task: ClassVar[Task] = "denoise images"
    recordable: ClassVar[bool] = True
    sigma: float = setting(math.sqrt(0.032), "standard deviation of the noise", above=0, at_most=1e6)
    sampler_steps: int = setting(20, "how often a sample is denoised", at_least=1, at_most=10_000)

    def denoiser(self, network: Network) -> Denoiser:
        """D(y) = y − σ f(y), at the one σ that the network knows."""
        return lambda y, sigma: y - self.sigma * self.predicted(network, y)

    def sigma_range(self) -> tuple[float, float]:
        return self.sigma, self.sigma

    def network_of(self, denoiser: Callable[[Tensor, float], Tensor]) -> Network:
        """The network whose denoiser is the given one: lets an exact oracle take a network's place."""
        return lambda y, label: (y - denoiser(y, self.sigma)) / self.sigma

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The noise (n, *shape)."""
        return (torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype),)

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        (noise,) = drawn
        predicted = self.predicted(network, clean + self.sigma * noise)
        return (predicted - noise).square().flatten(1).mean(dim=1)

    def predicted(self, network: Network, y: Tensor) -> Tensor:
        """The noise that the network predicts; its noise label is the same as in EDM."""
        return network(y, y.new_full((len(y),), math.log(self.sigma) / 4))

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn((n, *shape), generator=generator, device=generator.device)

    @property
    def levels(self) -> int:
        return self.sampler_steps

    def begin(self, network: Network, noise: Tensor) -> Tensor:
        return noise * math.sqrt(1 + self.sigma**2)

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        return state - self.sigma * self.predicted(network, state)

    def finish(self, state: Tensor) -> Tensor:
        return state
