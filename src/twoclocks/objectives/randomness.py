"""A counter-based generator of uniform numbers: any number of them from one 64-bit seed per token.

A thousand reverse steps need a thousand uniform numbers per token. They are functions of the token's seed and of the
step, so they need no memory, are equal on every device, and a sample can be drawn again from its noise alone.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from twoclocks.core.bits64 import scramble, shifted, signed

GOLDEN = signed(0x9E3779B97F4A7C15)  # 2^64/φ: multiples of it modulo 2^64 are evenly spread


def draw_seeds(n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw a random seed for every entry, int64 (n, *shape)."""
    return torch.randint(-(1 << 62), 1 << 62, (n, *shape), generator=generator, device=generator.device)


def uniforms(seeds: Tensor, count: int) -> Tensor:
    """The ``count``-th uniform number in [0, 1) of every seed, float32 with 24 random bits."""
    return shifted(scramble(seeds + signed(count * GOLDEN)), 40).float() * 2.0**-24


def normals(seeds: Tensor, count: int) -> Tensor:
    """The ``count``-th standard normal number of every seed, float32 (Box & Muller); at most 5.8."""
    radius = (-2 * torch.log1p(-uniforms(seeds, 2 * count))).sqrt()
    return radius * torch.cos(2 * math.pi * uniforms(seeds, 2 * count + 1))


def sample_categorical(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Sample symbols (…) from probabilities (…, symbols) by inverse transform of uniform numbers (…)."""
    # The last cumulative probability is 1 up to rounding; without it no uniform number can exceed the last symbol.
    return (uniform[..., None] >= probabilities.cumsum(dim=-1)[..., :-1]).sum(dim=-1)
