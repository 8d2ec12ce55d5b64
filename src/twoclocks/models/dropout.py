"""Dropout whose masks are a hash of the row that enters the network, so no generator is needed.

The inputs of a network that denoises contain fresh noise at every step, so masks are fresh too. They do not depend on
the other rows, on the number of threads, or on what was computed before: an interrupted run continues exactly, and a
CUDA graph draws new masks at every replay.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from twoclocks.core.bits64 import scramble, signed

GOLDEN = signed(0x9E3779B97F4A7C15)  # 2^64/φ: odd multiples of it modulo 2^64 are evenly spread
FIRST, SECOND = 0x7FEB352D, 0x6C078965  # odd multipliers that mix 32-bit words


def row_keys(x: Tensor) -> Tensor:
    """A 64-bit hash (n,) of the bits of every row of x (n, …)."""
    words: Tensor = Words.apply(x.detach().float().contiguous())  # type: ignore[no-untyped-call]
    bits = words.flatten(1).long()
    weights = (2 * torch.arange(bits.shape[1], device=x.device) + 1) * GOLDEN
    return scramble((bits * weights).sum(dim=1))


class Words(torch.autograd.Function):
    """The 32-bit words of floats as integers. torch before 2.13 has no ``vmap`` rule for such a view."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view(torch.int32)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Integers have no gradient."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], x: Tensor) -> tuple[Tensor, int | None]:
        return x.view(torch.int32), in_dims[0]


def keep_mask(keys: Tensor, shape: torch.Size, salt: int, rate: float) -> Tensor:
    """Booleans of ``shape`` (n, …), true with probability 1 − rate; layers with different salts differ."""
    own = scramble(keys + signed(salt * GOLDEN)).to(torch.int32)
    places = torch.arange(shape[1:].numel(), device=keys.device, dtype=torch.int32)
    mixed = own[:, None] ^ places
    for multiplier, shift in ((FIRST, 15), (SECOND, 16)):
        mixed.mul_(multiplier)
        mixed.bitwise_xor_((mixed >> shift).bitwise_and_((1 << (32 - shift)) - 1))  # a shift without copies of the sign
    return (mixed >= round(rate * 2**32) - 2**31).view(shape)


class RowDropout(nn.Module):
    """Set entries to zero with probability ``rate`` in training, and divide the others by 1 − rate."""

    def __init__(self, rate: float, salt: int) -> None:
        super().__init__()
        self.rate, self.salt = rate, salt

    def forward(self, x: Tensor, keys: Tensor | None) -> Tensor:
        """x (n, …) with dropout by the keys of its rows (n,); unchanged in evaluation and without keys."""
        if keys is None or not self.training:
            return x
        return x * keep_mask(keys, x.shape, self.salt, self.rate) / (1 - self.rate)
