"""Arithmetic of 64-bit words in tensors, whose integers are signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

WORD = 64  # bits of a word


def scramble(x: Tensor) -> Tensor:
    """A permutation of the 64-bit numbers in which every bit depends on every bit (the last step of SplitMix64)."""
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def shifted(x: Tensor, by: int) -> Tensor:
    """Shift to the right without copies of the sign."""
    return (x >> by) & ((1 << (WORD - by)) - 1)


def signed(number: int) -> int:
    """The number modulo 2^64 as int64 writes it."""
    number %= 1 << WORD
    return number - (1 << WORD) if number >= 1 << (WORD - 1) else number
