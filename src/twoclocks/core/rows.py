"""Rows as comparable keys: exact set membership of integer arrays by sorting, never by a loop over pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[Any]


def row_keys(rows: Any, symbols: int) -> Keys:
    """One opaque key per row, equal if and only if the rows are: the symbols packed into as few bytes as they need.

    ``rows`` is an integer array or tensor (n, …), on any device.
    """
    array = np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)
    flat = array.reshape(len(array), math.prod(array.shape[1:]))
    if flat.size and (flat.min() < 0 or flat.max() >= symbols):
        raise ValueError(f"rows hold symbols outside 0..{symbols - 1}")
    if symbol_bits(symbols) == 8:  # pixels: the bytes themselves
        return byte_keys(flat.astype(np.uint8))
    planes = [(flat >> bit & 1).astype(np.uint8) for bit in range(symbol_bits(symbols))]
    packed = np.packbits(np.concatenate(planes, axis=1), axis=1)
    width = packed.shape[1]
    if width <= 8:  # a machine word compares fastest
        padded = np.zeros((len(packed), 8), dtype=np.uint8)
        padded[:, :width] = packed
        return padded.view(np.uint64).ravel()
    return byte_keys(packed)


def byte_keys(rows: npt.NDArray[Any]) -> Keys:
    """One opaque key per row of an array (n, entries) of integers or floats, equal where the rows are; −0.0 is 0.0."""
    plain = np.ascontiguousarray(rows + 0.0 if rows.dtype.kind == "f" else rows)
    return plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()


def symbol_bits(symbols: int) -> int:
    """Bits in which every one of the symbols 0 … symbols−1 has its own pattern."""
    return max(1, (symbols - 1).bit_length())


def is_member(rows: Any, of: Any, symbols: int) -> npt.NDArray[np.bool_]:
    """Which rows occur exactly in ``of``: bool (n,)."""
    return np.isin(row_keys(rows, symbols), row_keys(of, symbols))
