"""Uniform numbers by counting: row i of a noise tensor stands for as many of them as a sample needs.

A thousand reverse steps need a thousand uniforms a token. They are functions of the token's own word and of the step,
so they need no memory, are the same on every device, and a sample can be drawn again from its noise alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from twoclocks.core.bits64 import scramble, shifted, signed

GOLDEN = signed(0x9E3779B97F4A7C15)  # 2^64/φ: steps of it visit all words evenly


def seeds(n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """A random word for every entry, int64 (n, *shape)."""
    return torch.randint(-(1 << 62), 1 << 62, (n, *shape), generator=generator, device=generator.device)


def uniforms(words: Tensor, count: int) -> Tensor:
    """The ``count``-th uniform number in [0, 1) of every word, float32 of 24 bits."""
    return shifted(scramble(words + signed(count * GOLDEN)), 40).float() * 2.0**-24


def pick(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """The symbol (…) at which the cumulative probabilities (…, symbols) pass each uniform number (…)."""
    # The last bound is left out: it is 1 up to rounding, and no uniform may fall behind the last symbol.
    return (uniform[..., None] >= probabilities.cumsum(dim=-1)[..., :-1]).sum(dim=-1)
