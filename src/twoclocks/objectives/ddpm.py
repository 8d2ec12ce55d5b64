"""Gaussian diffusion in discrete time (DDPM, Ho et al. 2020; iDDPM, Nichol & Dhariwal 2021), ε-prediction.

The loss is mean‖ε − ε̂(x_t, t)‖² at a random level t. With learned variance it is iDDPM's hybrid L_simple + λ·L_vlb: the
network also returns v, which places ln of the reverse variance between ln β̃_t and ln β_t, and L_vlb, in bits per entry,
trains v alone. The sampler works on y = x_t/√ᾱ_t = x_0 + σε, on which DDIM without noise is Euler's method for EDM's
differential equation, and the posterior q(y' | y, x_0) has mean x_0 + (σ'/σ)²(y − x_0), variance σ'²(1 − (σ'/σ)²).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.objectives.base import OBJECTIVES, Denoiser, Network, Objective, Task
from twoclocks.objectives.edm import like
from twoclocks.objectives.gaussian_levels import FEWEST_LINEAR, Levels, gaussian_levels
from twoclocks.objectives.randomness import draw_seeds, normals
from twoclocks.objectives.restoring import stratified_times

LABELS = 1000  # noise labels are 1000·t/T for any number T of levels, as in iDDPM
SMALLEST = 1e-12  # probability of a bin, below which the likelihood is cut off (as in iDDPM)


class Walk(NamedTuple):
    """The state of a random sampler: y, and the seeds of its random numbers."""

    y: Tensor  # (n, *shape)
    seeds: Tensor  # (n, *shape)


@OBJECTIVES.register("ddpm")
@dataclass(frozen=True, kw_only=True)
class DDPM(Objective):
    """Gaussian diffusion with discrete noise levels (DDPM, iDDPM): noise prediction, DDIM or ancestral sampling.

    >>> DDPM(sampler_levels=3).sampler_times().tolist()
    [3999, 2000, 0]
    """

    kind: ClassVar[str] = "image"
    task: ClassVar[Task] = "denoise images"
    recordable: ClassVar[bool] = True

    noise_levels: int = setting(4000, "number T of noise levels", at_least=2, at_most=10**5)
    schedule: Literal["cosine", "linear"] = setting("cosine", "how the noise grows: iDDPM's cosine, or DDPM's linear β")
    variance: Literal["fixed", "learned"] = setting(
        "fixed", "variance of a reverse step: that of the posterior, β̃, or predicted by the network (model.variance)"
    )
    bound_weight: float = setting(0.001, "weight λ of the variational bound, with learned variance", at_least=0)
    bins: int = setting(
        256,
        "learned variance: values per entry, evenly spaced in [−1, 1], of the likelihood at the first level",
        at_least=2,
    )
    sampler: Literal["ddim", "ancestral"] = setting("ddim", "DDIM, or draws from the reverse process")
    eta: float = setting(
        0.0, "DDIM: noise per step; 0: none, 1: as the ancestral one with fixed variance", at_least=0, at_most=1
    )
    sampler_levels: int = setting(100, "noise levels of the sampler, evenly spaced", at_least=1)
    clip: bool = setting(True, "limit the predicted clean samples to [−1, 1] in the sampler")

    def check(self) -> None:
        if self.sampler_levels > self.noise_levels:
            raise SettingError("sampler_levels", self.sampler_levels, f"use at most noise_levels = {self.noise_levels}")
        if self.schedule == "linear" and self.noise_levels < FEWEST_LINEAR:
            fix = f"the linear schedule needs at least {FEWEST_LINEAR}; use more, or schedule: cosine"
            raise SettingError("noise_levels", self.noise_levels, fix)
        if self.sampler == "ancestral" and self.eta:
            raise SettingError("eta", self.eta, "the ancestral sampler does not read it; leave it out, or use ddim")

    @property
    def predicts_variance(self) -> bool:
        return self.variance == "learned"

    def table(self, device: torch.device) -> Levels:
        return gaussian_levels(self.schedule, self.noise_levels, device)

    def label(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        """The noise labels of levels (n,), integers or not."""
        return (levels.double() * (LABELS / self.noise_levels)).to(dtype)

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw levels 0 … T − 1 (n,), stratified over the rows, and the noise (n, *shape)."""
        times = stratified_times(len(clean), generator, clean.device)
        levels = (times * self.noise_levels).long().clamp(max=self.noise_levels - 1)
        return levels, torch.randn(clean.shape, generator=generator, device=clean.device, dtype=clean.dtype)

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        levels, noise = drawn
        answer = network(self.corrupt(clean, levels, noise), self.label(levels, clean.dtype))
        predicted, between = split_channels(answer, clean)
        loss = (predicted - noise).square().flatten(1).mean(dim=1)
        if self.variance == "fixed":
            return loss
        bound = self.bound_terms(clean, levels, (noise - predicted).detach(), between)
        return loss + self.bound_weight * self.noise_levels * bound

    def corrupt(self, clean: Tensor, levels: Tensor, noise: Tensor) -> Tensor:
        """x_t = √ᾱ_t·clean + √(1 − ᾱ_t)·noise at levels (n,)."""
        alpha_bar = self.table(clean.device).alpha_bar[levels]
        kept, added = (like(part.sqrt().to(clean.dtype), clean) for part in (alpha_bar, 1 - alpha_bar))
        return kept * clean + added * noise

    def bound_terms(self, clean: Tensor, levels: Tensor, error: Tensor, between: Tensor) -> Tensor:
        """The term L_t of the bound (n,), in bits per entry, at levels (n,), where ``error`` is ε − ε̂.

        ``between`` is v: −1 for the variance β̃, 1 for β. L_t is KL(q(x_{t−1} | x_t, x_0) ‖ p(x_{t−1} | x_t)); at level
        0 it is −log p(x_0 | x_0's noisy version), the probability of the bin that contains the entry.
        """
        table = self.table(clean.device)
        sigma, weight, small, ratio = (
            like(column[levels].to(clean.dtype), clean)
            for column in (table.sigma, table.error_weight, table.log_small, table.log_ratio)
        )
        excess = (between + 1) / 2 * ratio  # ln of the variance, relative to β̃
        divergence = (excess + torch.exp(-excess) * (1 + weight * error.square()) - 1) / 2
        first = bin_nll(clean, clean + sigma * error, small + excess, self.bins)
        terms = torch.where(like(levels == 0, clean), first, divergence)
        return terms.flatten(1).mean(dim=1) / math.log(2)

    def denoiser(self, network: Network) -> Denoiser:
        """D(y; σ) = y − σ ε̂, for σ (n,) or (1,); between two levels, the label is interpolated in ln σ."""
        return lambda y, sigma: self.predict(network, y, sigma)[0]

    def predict(self, network: Network, y: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted clean samples, and v (without entries where the variance is fixed)."""
        s = like(sigma, y)
        label = self.label(self.table(y.device).level_of(sigma), y.dtype).expand(len(y))  # one label per row
        predicted, between = split_channels(network(y / (1 + s**2).sqrt(), label), y)
        return y - s * predicted, between

    def network_of(self, denoiser: Denoiser) -> Network:
        """The network whose ``denoiser`` is the given one, with variance β̃: lets an oracle take a network's place."""

        def network(x: Tensor, noise_label: Tensor) -> Tensor:
            level = noise_label.double() * self.noise_levels / LABELS
            sigma = self.table(x.device).sigma_of(level).to(x.dtype)
            s = like(sigma, x)
            y = x * (1 + s**2).sqrt()
            noise = (y - denoiser(y, sigma)) / s
            return torch.cat([noise, -torch.ones_like(noise)], dim=1) if self.predicts_variance else noise

        return network

    def sigma_range(self) -> tuple[float, float]:
        sigma = self.table(torch.device("cpu")).sigma
        return float(sigma[0]), float(sigma[-1])

    @property
    def is_random(self) -> bool:
        """Whether the sampler draws noise in every step."""
        return self.sampler == "ancestral" or self.eta > 0

    @property
    def levels(self) -> int:
        return self.sampler_levels

    def sampler_times(self) -> Tensor:
        """The levels that the sampler visits, from T − 1 to 0, evenly spaced (int64)."""
        last = self.noise_levels - 1
        return torch.linspace(last, 0, self.sampler_levels, dtype=torch.float64).round().long()

    def visited_sigmas(self) -> Tensor:
        """σ before each step of the sampler, then 0 (float64)."""
        sigma = self.table(torch.device("cpu")).sigma[self.sampler_times()]
        return torch.cat([sigma, torch.zeros(1, dtype=torch.float64)])

    def sampler_sigmas(self) -> Tensor | None:
        """As ``visited_sigmas``; None for a random sampler, whose steps are no function of a denoiser alone."""
        return None if self.is_random else self.visited_sigmas()

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """The initial noise; for a random sampler, one seed per entry, which stands for the noise of all steps."""
        if self.is_random:
            return draw_seeds(n, shape, generator)
        return torch.randn((n, *shape), generator=generator, device=generator.device)

    def begin(self, network: Network, noise: Tensor) -> Tensor | Walk:
        """x of the last level is standard normal, so y is 1/√ᾱ times that."""
        scale = math.sqrt(1 + self.sigma_range()[1] ** 2)
        return Walk(normals(noise, 0) * scale, noise) if self.is_random else noise * scale

    def reverse_step(self, network: Network, state: Tensor | Walk, level: int) -> Tensor | Walk:
        if not isinstance(state, Walk):
            return self.denoising_step(self.denoiser(network), state, level)
        now, after = self.visited_sigmas()[level : level + 2].tolist()
        y, seeds = state
        clean, between = self.predict(network, y, y.new_full((1,), now))
        clean = self.limited(clean)
        if after == 0:
            return Walk(clean, seeds)
        small = after**2 * (1 - (after / now) ** 2)  # the posterior's variance
        noise = normals(seeds, level + 1)
        if self.sampler == "ancestral" and self.predicts_variance:
            log_ratio = math.log(now**2 / (1 + now**2)) - math.log(after**2 / (1 + after**2))
            spread = math.sqrt(small) * torch.exp((between + 1) / 4 * log_ratio)
            return Walk(clean + (after / now) ** 2 * (y - clean) + spread * noise, seeds)
        variance = small if self.sampler == "ancestral" else self.eta**2 * small
        kept = math.sqrt(after**2 - variance) / now
        return Walk(clean + kept * (y - clean) + math.sqrt(variance) * noise, seeds)

    def denoising_step(self, denoiser: Denoiser, state: Tensor, level: int) -> Tensor:
        """DDIM's step without noise: y' = D + (σ'/σ)(y − D)."""
        now, after = self.visited_sigmas()[level : level + 2].tolist()
        clean = self.limited(denoiser(state, state.new_full((1,), now)))
        after_step: Tensor = clean + after / now * (state - clean)
        return after_step

    def limited(self, clean: Tensor) -> Tensor:
        return clean.clamp(-1, 1) if self.clip else clean

    def finish(self, state: Tensor | Walk) -> Tensor:
        return state.y if isinstance(state, Walk) else state


def split_channels(answer: Tensor, like_this: Tensor) -> tuple[Tensor, Tensor]:
    """The predicted noise, and what the network returns in further channels."""
    channels = like_this.shape[1]
    return answer[:, :channels], answer[:, channels:]


def bin_nll(clean: Tensor, mean: Tensor, log_variance: Tensor, bins: int) -> Tensor:
    """−ln of the normal probability of each entry's bin; the outermost bins reach to infinity."""
    half, inverse = 1 / (bins - 1), torch.exp(-log_variance / 2)
    lower, upper = ((clean - mean + side * half) * inverse for side in (-1, 1))
    below = torch.where(clean < -1 + half, 0.0, torch.special.ndtr(lower))
    above = torch.where(clean > 1 - half, 1.0, torch.special.ndtr(upper))
    return -(above - below).clamp(min=SMALLEST).log()
