"""Bounds of Euclidean distances from one matrix product, which hold whatever rounding did.

For centred rows y and samples s, ‖s − y‖² = ‖s‖² − 2 c with the closeness c = s·y − ‖y‖²/2. The product is computed in
bfloat16 (fast) or in float64 (precise). With ŝ, ŷ the rounded vectors and D entries,
|s·y − ŝ·ŷ| ≤ ‖s − ŝ‖‖y‖ + ‖ŝ‖‖y − ŷ‖ (Cauchy–Schwarz; these norms are measured, not estimated), and a sum of D products
in a type with rounding unit u is wrong by at most D·u·‖ŝ‖‖ŷ‖. These terms, and ‖y‖²/2, are further columns of the two
factors, so that the product itself is an upper bound of the closeness, and no more work is left for each pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twoclocks.core.lazy import torch

UNITS = {"bfloat16": 2.0**-23, "float64": 2.0**-52}  # of sums of products: also where a device truncates
OUTPUT = 2.0**-8  # largest relative error of a product that is returned in bfloat16
UP = 1 + 2.0**-6  # a positive number times this is not smaller after rounding to bfloat16
FLUSHED = 1e-24  # more than what numbers too small for the type can contribute: the largest norm is at most 1
FARTHEST = 1e6  # norms of samples up to which this holds in bfloat16
SMALL = 16  # below this many rows or entries, torch does not use the library with float32 sums
COLUMNS = 5  # further columns of a factor
WIDTH = 32  # columns are filled up to a multiple of this, which is faster
ROWS = 1 << 22  # entries of rows that are converted to float64 at once


@dataclass(frozen=True)
class Frame:
    """The origin and the unit of the coordinates in which products are computed: no row has a norm above 1."""

    centre: torch.Tensor  # (D,) float64
    scale: float  # a power of two, so that scaling does not round

    @classmethod
    def of(cls, rows: torch.Tensor) -> Frame:
        """The frame of rows (N, D), from their mean and their range."""
        total = torch.zeros(rows.shape[1], dtype=torch.float64)
        low, high = rows[0].clone(), rows[0].clone()
        for piece in rows.split(tile_rows(rows.shape[1])):
            total += piece.sum(0, dtype=torch.float64)
            low, high = torch.minimum(low, piece.amin(0)), torch.maximum(high, piece.amax(0))
        centre = total / len(rows)
        reach = float(torch.maximum(high.double() - centre, centre - low.double()).max()) * rows.shape[1] ** 0.5
        return cls(centre, 2.0 ** -float(np.ceil(np.log2(reach))) if 0 < reach < np.inf else 1.0)

    def to(self, device: torch.device) -> Frame:
        return Frame(self.centre.to(device), self.scale)


def sample_factor(samples: torch.Tensor, frame: Frame, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples (n, D) as the left factor, in bfloat16 or float64, and their norms (n,) in the frame."""
    rounded, norms, errors = rounded_vectors(samples, frame, dtype)
    ones = torch.ones_like(norms)
    return with_columns(rounded, [ones, ones, ones, errors * UP, (norms + errors) * UP], dtype), norms


def row_factor(rows: torch.Tensor, frame: Frame, dtype: torch.dtype) -> torch.Tensor:
    """Training rows (N, D) of any type as the right factor (N, columns), in bfloat16 or float64."""
    entries = rows.shape[1]
    rounded, norms, errors = rounded_vectors(rows, frame, dtype)
    sums = (entries + 64) * UNITS["bfloat16" if dtype == torch.bfloat16 else "float64"]
    half = FLUSHED - norms.square() * (0.5 * (1 - 2 * sums))
    parts = []  # −‖y‖²/2 as a sum of three numbers of the type
    for _ in range(3):
        parts.append(half.to(dtype))
        half = half - parts[-1].double()
    return with_columns(rounded, [*parts, norms * UP, (errors + 2 * sums * (norms + errors)) * UP], dtype)


def rounded_vectors(
    rows: torch.Tensor, frame: Frame, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows in the frame: rounded values (n, D), true norms (n,), norms of what rounding took away (n,)."""
    values = rows.to(torch.float64, copy=True).sub_(frame.centre).mul_(frame.scale)
    norms = torch.linalg.vector_norm(values, dim=1)
    if dtype == torch.float64:
        return values, norms, norms * 2.0**-51
    rounded = values.to(dtype)
    return rounded, norms, torch.linalg.vector_norm(values.sub_(rounded), dim=1)


def with_columns(values: torch.Tensor, columns: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """Values (n, D) with further columns, filled up with zeros to a multiple of ``WIDTH``."""
    entries = values.shape[1]
    whole = torch.zeros(len(values), width(entries), dtype=dtype, device=values.device)
    whole[:, :entries] = values
    for number, column in enumerate(columns):
        whole[:, entries + number] = column.to(dtype)
    return whole


def width(entries: int) -> int:
    """Columns of a factor of vectors with this many entries."""
    return -(-(entries + COLUMNS) // WIDTH) * WIDTH


def row_factor_in_tiles(rows: torch.Tensor, frame: Frame) -> torch.Tensor:
    """All rows (N, D) as the right factor in bfloat16, converted tile by tile."""
    whole = torch.empty(len(rows), width(rows.shape[1]), dtype=torch.bfloat16)
    size = tile_rows(rows.shape[1])
    for begin in range(0, len(rows), size):
        whole[begin : begin + size] = row_factor(rows[begin : begin + size], frame, torch.bfloat16)
    return whole


def tile_rows(entries: int) -> int:
    """Rows that are converted to float64 at once."""
    return max(1, ROWS // max(1, entries))


def relative_error(entries: int) -> float:
    """Largest relative error of a squared norm or distance of this many entries, computed in float64."""
    return (entries + 16) * 2.0**-52


def closeness_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """The type of ``closeness`` for factors of a type on a device."""
    if dtype == torch.float64:
        return torch.float64
    return torch.bfloat16 if device.type == "cpu" and has_fast_bfloat16() else torch.float32


def closeness(samples: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Upper bounds (n, N) of the closeness; those in bfloat16 may be too low by a factor 1 ± ``OUTPUT``."""
    if samples.dtype == torch.float64:
        return samples @ rows.T
    if samples.is_cuda:
        return torch.mm(samples, rows.T, out_dtype=torch.float32)
    if has_fast_bfloat16() and min(len(samples), len(rows)) > SMALL:
        return samples @ rows.T
    return samples.float() @ rows.float().T


def least_closeness(limit: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The bound below which no row has a closeness of at least ``limit`` (n,), for bounds of a type.

    Rounding it to that type is harmless: no other number of the type lies between it and its neighbour.
    """
    if dtype == torch.bfloat16:
        limit = limit / (1 + torch.sign(limit) * OUTPUT)
    return limit.to(dtype)


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return known is not None and bool(known()) and bool(torch.backends.mkldnn.is_available())


def plain_tensor(rows: npt.NDArray[np.generic]) -> torch.Tensor:
    """An array as a tensor (n, D) that shares its memory where torch has the type and the order."""
    flat = np.ascontiguousarray(rows.reshape(len(rows), math.prod(rows.shape[1:])))
    if flat.dtype.kind == "u" and flat.dtype.itemsize > 1:
        flat = flat.astype(np.int64 if flat.dtype.itemsize < 8 else np.float64)
    elif flat.dtype.kind == "b":
        flat = flat.astype(np.uint8)
    elif flat.dtype.itemsize > 8 or not flat.dtype.isnative:
        flat = flat.astype(np.float64)
    return torch.from_numpy(flat if flat.flags.writeable else flat.copy())
