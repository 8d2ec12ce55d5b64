"""EDM (Karras et al. 2022): preconditioned denoiser, weighted denoising loss, Heun's deterministic sampler.

With y = x + σn the denoiser is D(y; σ) = c_skip y + c_out F(c_in y, c_noise), and the loss of one sample is
λ(σ)·mean‖D(y; σ) − x‖² with λ = (σ² + σd²)/(σ σd)² and ln σ ~ N(P_mean, P_std²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.objectives.base import OBJECTIVES, Denoiser, Network, Objective, Task


@OBJECTIVES.register("edm")
@dataclass(frozen=True, kw_only=True)
class EDM(Objective):
    """Gaussian diffusion with EDM preconditioning and Heun's deterministic sampler.

    >>> EDM(sampler_steps=3).sampler_sigmas().tolist()
    [80.0, 2.515..., 0.002..., 0.0]
    """

    kind: ClassVar[str] = "image"
    task: ClassVar[Task] = "denoise images"
    recordable: ClassVar[bool] = True
    sigma_data: float = setting(0.5, "standard deviation that the preconditioning assumes of the data", above=0)
    log_sigma_mean: float = setting(-1.2, "mean of ln σ in training")
    log_sigma_std: float = setting(1.2, "standard deviation of ln σ in training", above=0)
    first_shift: float = setting(
        0.0, "how much higher the mean of ln σ is at the first step; it falls linearly to 0", added=True
    )
    shift_steps: int = setting(
        0, "steps over which it falls; 0: no curriculum over noise levels", at_least=0, at_most=10**12, added=True
    )
    sampler_steps: int = setting(35, "noise levels of the sampler", at_least=2, at_most=10_000)
    sigma_min: float = setting(0.002, "last noise level of the sampler", above=0, at_most=1e6)
    sigma_max: float = setting(80.0, "first noise level of the sampler", above=0, at_most=1e6)
    rho: float = setting(7.0, "curvature of the sampler's schedule", above=0)

    def check(self) -> None:
        if bool(self.first_shift) != bool(self.shift_steps):
            fix = "a curriculum needs both objective.first_shift and objective.shift_steps; set both, or none"
            raise SettingError("shift_steps", self.shift_steps, fix)
        if self.sigma_min >= self.sigma_max:
            raise SettingError("sigma_min", self.sigma_min, f"use a number below sigma_max = {self.sigma_max}")
        sigmas = self.sampler_sigmas()
        if not bool(torch.isfinite(sigmas).all()) or not bool((sigmas[1:] < sigmas[:-1]).all()):
            raise SettingError(
                "rho", self.rho, "with it the noise levels do not fall from sigma_max to sigma_min; use about 7"
            )

    def denoiser(self, network: Network) -> Denoiser:
        """D(y; σ) of a raw network F, for σ (n,), or (1,) where all rows share it."""

        def denoise(y: Tensor, sigma: Tensor) -> Tensor:
            s = like(sigma, y)
            variance = s**2 + self.sigma_data**2
            c_skip = self.sigma_data**2 / variance
            c_out = s * self.sigma_data / variance.sqrt()
            raw = network(y / variance.sqrt(), (sigma.log() / 4).expand(len(y)))  # one label per row
            return c_skip * y + c_out * raw

        return denoise

    def sigma_range(self) -> tuple[float, float]:
        return 0.0, math.inf

    def network_of(self, denoiser: Denoiser) -> Network:
        """The raw network F whose ``denoiser`` is the given one: lets an exact oracle take a network's place."""

        def network(scaled: Tensor, noise_label: Tensor) -> Tensor:
            sigma = (4 * noise_label).exp()
            s = like(sigma, scaled)
            variance = s**2 + self.sigma_data**2
            y = scaled * variance.sqrt()
            return (denoiser(y, sigma) - self.sigma_data**2 / variance * y) * variance.sqrt() / (s * self.sigma_data)

        return network

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """ln σ (n,) and the noise (n, *shape)."""
        normal = torch.randn(len(clean), generator=generator, device=clean.device, dtype=clean.dtype)
        noise = torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype)
        return self.log_sigma_mean + self.log_sigma_std * normal, noise

    @property
    def has_curriculum(self) -> bool:
        return bool(self.shift_steps)

    def noise_shift(self, step: int) -> float:
        """Of ln σ.

        >>> [EDM(first_shift=2.0, shift_steps=100).noise_shift(step) for step in (0, 50, 100, 200)]
        [2.0, 1.0, 0.0, 0.0]
        """
        return self.first_shift * max(0.0, 1 - step / self.shift_steps) if self.shift_steps else 0.0

    def with_shift(self, shift: Tensor, *drawn: Tensor) -> tuple[Tensor, ...]:
        log_sigma, noise = drawn
        return log_sigma + shift, noise

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        scaled, label, target = self.precondition(clean, *drawn)
        # λ c_out² = 1: the weighted error of the denoiser is the plain error of the network.
        return functional.mse_loss(network(scaled, label), target, reduction="none").flatten(1).mean(dim=1)

    def precondition(self, clean: Tensor, log_sigma: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the network is shown of y = clean + σ·noise, its noise label (n,), and what it should return.

        Input y/√(σ² + σd²), label ln σ / 4, target (σ/σd · clean − σd · noise)/√(σ² + σd²).
        """
        sigma = like(log_sigma.exp(), clean)
        inverse = (sigma.square() + self.sigma_data**2).rsqrt()
        target = (sigma / self.sigma_data * clean - self.sigma_data * noise) * inverse
        return (clean + sigma * noise) * inverse, log_sigma / 4, target

    @staticmethod
    def denoising_error(denoiser: Denoiser, clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """Unweighted squared error (n,), averaged over the entries of a sample."""
        residual = denoiser(clean + like(sigma, clean) * noise, sigma) - clean
        return residual.flatten(1).square().mean(dim=1)

    def sampler_sigmas(self) -> Tensor:
        """σ_0 = sigma_max … σ_{steps−1} = sigma_min, then 0 (float64)."""
        ramp = torch.linspace(0, 1, self.sampler_steps, dtype=torch.float64)
        first, last = torch.tensor([self.sigma_max, self.sigma_min], dtype=torch.float64) ** (1 / self.rho)
        return torch.cat([(first + ramp * (last - first)) ** self.rho, torch.zeros(1, dtype=torch.float64)])

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn((n, *shape), generator=generator, device=generator.device)

    @property
    def levels(self) -> int:
        return self.sampler_steps

    def network_calls(self, length: int) -> int:
        """Two per step of Heun's method; the last step is Euler's."""
        return 2 * self.levels - 1

    def begin(self, network: Network, noise: Tensor) -> Tensor:
        return noise * self.sigma_max

    def reverse_step(self, network: Network, state: Tensor, level: int) -> Tensor:
        return self.denoising_step(self.denoiser(network), state, level)

    def denoising_step(self, denoiser: Denoiser, state: Tensor, level: int) -> Tensor:
        """Heun's step from σ_level to σ_{level+1} along dx/dσ = (x − D)/σ; the last step, to 0, is Euler's."""
        sigmas, x = self.sampler_sigmas(), state
        now, after = float(sigmas[level]), float(sigmas[level + 1])
        slope = (x - denoiser(x, x.new_full((1,), now))) / now
        euler = x + (after - now) * slope
        if after == 0:
            return euler
        slope_after = (euler - denoiser(euler, x.new_full((1,), after))) / after
        return x + (after - now) * (slope + slope_after) / 2

    def finish(self, state: Tensor) -> Tensor:
        return state


def like(sigma: Tensor, y: Tensor) -> Tensor:
    """σ (n,) with trailing axes, so that it multiplies y (n, *shape) row by row."""
    return sigma.reshape(-1, *[1] * (y.dim() - 1))
