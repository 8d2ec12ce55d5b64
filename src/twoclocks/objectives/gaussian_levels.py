"""Noise levels of Gaussian diffusion in discrete time: iDDPM's cosine schedule and DDPM's linear one.

x_t = √ᾱ_t x_0 + √(1 − ᾱ_t) ε with ᾱ_t = Π(1 − β_s). The scaled sample y = x_t/√ᾱ_t = x_0 + σ_t ε has σ² = (1 − ᾱ)/ᾱ,
and is what EDM calls y. (``schedules`` has α(u) of discrete data, which ends at exactly 0; here the published β are
needed, level by level.)
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

LARGEST_BETA = 0.999  # iDDPM's limit: near the last level of the cosine schedule, β would be 1
OFFSET = 0.008  # of the cosine schedule, so that the first β is not too small
LINEAR = (1e-4, 0.02)  # first and last β of DDPM, for 1,000 levels
FEWEST_LINEAR = 21  # with fewer levels, the last β of the linear schedule would be 1 or more


class Levels(NamedTuple):
    """Constants of the noise levels 0 … T − 1 (T,), float64; level 0 has the least noise."""

    alpha_bar: Tensor
    sigma: Tensor
    log_sigma: Tensor
    error_weight: Tensor  # (σ_t² − σ_{t−1}²)/σ_{t−1}²; 0 at level 0
    log_small: Tensor  # ln of the posterior's variance β̃_t; at level 0, where it is 0, that of level 1 (as in iDDPM)
    log_ratio: Tensor  # ln β_t minus ``log_small``

    def level_of(self, sigma: Tensor) -> Tensor:
        """The real number in [0, T − 1] of the level with noise σ (n,), by interpolation of ln σ; float64."""
        log = sigma.double().log()
        above = torch.searchsorted(self.log_sigma, log).clamp(1, len(self.log_sigma) - 1)
        low, high = self.log_sigma[above - 1], self.log_sigma[above]
        return (above - 1 + (log - low) / (high - low)).clamp(0, len(self.log_sigma) - 1)

    def sigma_of(self, level: Tensor) -> Tensor:
        """σ (n,) of real levels in [0, T − 1]: the inverse of ``level_of``; float64."""
        below = level.double().floor().clamp(0, len(self.log_sigma) - 2).long()
        low, high = self.log_sigma[below], self.log_sigma[below + 1]
        return (low + (level.double() - below) * (high - low)).exp()


def betas(schedule: str, count: int) -> Tensor:
    """β of all levels (count,), float64; the linear schedule adds the same noise in total for any count."""
    if schedule == "linear":
        first, last = (1000 / count * end for end in LINEAR)
        return torch.linspace(first, last, count, dtype=torch.float64)
    times = torch.linspace(0, 1, count + 1, dtype=torch.float64)
    alpha_bar = torch.cos((times + OFFSET) / (1 + OFFSET) * math.pi / 2).square()
    return (1 - alpha_bar[1:] / alpha_bar[:-1]).clamp(max=LARGEST_BETA)


@cache
def gaussian_levels(schedule: str, count: int, device: torch.device) -> Levels:
    """Constants of all levels of a schedule, computed and copied to the device once (a CUDA graph cannot copy them)."""
    beta = betas(schedule, count)
    alpha_bar = (1 - beta).cumprod(dim=0)
    noise = 1 - alpha_bar
    variance = noise / alpha_bar
    small = noise[:-1] / noise[1:] * beta[1:]  # β̃ of the levels 1 … T − 1
    log_small = torch.cat([small[:1], small]).log()
    weight = torch.cat([torch.zeros(1, dtype=torch.float64), variance[1:] / variance[:-1] - 1])
    sigma = variance.sqrt()
    found = Levels(alpha_bar, sigma, sigma.log(), weight, log_small, beta.log() - log_small)
    return Levels(*(column.to(device) for column in found))
