"""Products with a matrix of few columns in Triton: a network's first and last layer, which matrix units do not suit.

All in float32: the noise that a denoiser must see at small σ is lost when its input is rounded to bfloat16. A column of
tokens stands for its one-hot matrix.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from twoclocks.kernels.column_sums import column_sums

MOST = 32  # a matrix with more is not narrow
ROWS = 4  # that a program holds at a time
PIECES = 576  # programs per column where rows are summed: each leaves a sum of its own


def expand(narrow: Tensor, weight: Tensor, bias: Tensor | None, positions: Tensor | None, dtype: torch.dtype) -> Tensor:
    """narrow (rows, c) · weight (c, width) + bias + positions, again and again; for tokens, rows of weight."""
    assert narrow.is_contiguous()
    rows, width = len(narrow), weight.shape[1]
    out = torch.empty(rows, width, dtype=dtype, device=narrow.device)
    channels = 0 if narrow.dim() == 1 else narrow.shape[1]
    cycle = len(positions) if positions is not None else 1
    _skinny_expand[(triton.cdiv(rows, ROWS),)](
        narrow, weight, bias, positions, out, rows, width, cycle, *weight.stride(), CHANNELS=channels, ROWS=ROWS,
        WIDTH=triton.next_power_of_2(width), TOKENS=narrow.dim() == 1, num_warps=4,
    )  # fmt: skip
    return out


def reduce(wide: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """wide (rows, width) · weightᵀ (width, c) + bias (c,), in float32."""
    assert wide.is_contiguous() and weight.is_contiguous()
    rows, width = wide.shape
    out = torch.empty(rows, len(weight), dtype=torch.float32, device=wide.device)
    _skinny_reduce[(triton.cdiv(rows, ROWS),)](
        wide,
        weight,
        bias,
        out,
        rows,
        width,
        COLUMNS=len(weight),
        ROWS=ROWS,
        WIDTH=triton.next_power_of_2(width),
        num_warps=4,
    )
    return out


def outer(narrow: Tensor, wide: Tensor, columns: int) -> Tensor:
    """narrowᵀ · wide, and below it the sum of wide over rows: (c + 1, width); for tokens, c = ``columns``."""
    assert narrow.is_contiguous() and wide.is_contiguous()
    rows, width = wide.shape
    passes = max(4, triton.next_power_of_2(triton.cdiv(rows, ROWS * PIECES)))
    pieces = triton.cdiv(rows, ROWS * passes)
    out = torch.empty(pieces, columns + 1, width, dtype=torch.float32, device=wide.device)
    _skinny_outer[(pieces, columns + 1)](
        narrow, wide, out, rows, width, columns, ROWS=ROWS, PASSES=passes, WIDTH=triton.next_power_of_2(width),
        TOKENS=narrow.dim() == 1, num_warps=4,
    )  # fmt: skip
    return column_sums(out.flatten(1)).view(out.shape[1:])


@triton.jit
def _skinny_expand(
    narrow, weight, bias, positions, out, rows, width, cycle, channel_stride, feature_stride,
    CHANNELS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    here = (row < rows) & (column < width)
    if TOKENS:
        token = tl.load(narrow + row, mask=row < rows, other=0)
        total = tl.load(weight + token * channel_stride + column * feature_stride, mask=here, other=0.0).to(tl.float32)
    else:
        total = tl.zeros((ROWS, WIDTH), tl.float32)
        for channel in range(CHANNELS):
            factor = tl.load(narrow + row * CHANNELS + channel, mask=row < rows, other=0.0).to(tl.float32)
            line = tl.load(weight + channel * channel_stride + column * feature_stride, mask=column < width, other=0.0)
            total += factor * line.to(tl.float32)
    if bias is not None:
        total += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
    if positions is not None:
        total += tl.load(positions + (row % cycle) * width + column, mask=here, other=0.0).to(tl.float32)
    tl.store(out + row.to(tl.int64) * width + column, total.to(out.dtype.element_ty), mask=here)


@triton.jit
def _skinny_reduce(
    wide, weight, bias, out, rows, width, COLUMNS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)[None, :]
    here = (row[:, None] < rows) & (column < width)
    x = tl.load(wide + row[:, None].to(tl.int64) * width + column, mask=here, other=0.0).to(tl.float32)
    for channel in range(COLUMNS):
        line = tl.load(weight + channel * width + column, mask=column < width, other=0.0).to(tl.float32)
        total = tl.sum(x * line, axis=1)
        if bias is not None:
            total += tl.load(bias + channel).to(tl.float32)
        tl.store(out + row * COLUMNS + channel, total, mask=row < rows)


@triton.jit
def _skinny_outer(
    narrow, wide, out, rows, width, columns,
    ROWS: tl.constexpr, PASSES: tl.constexpr, WIDTH: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(1)
    column = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for turn in range(PASSES):
        row = (tl.program_id(0) * PASSES + turn) * ROWS + tl.arange(0, ROWS)[:, None]
        here = (row < rows) & (column < width)
        if channel == columns:
            factor = tl.full((ROWS, 1), 1.0, tl.float32)
        elif TOKENS:
            factor = (tl.load(narrow + row, mask=row < rows, other=-1) == channel).to(tl.float32)
        else:
            factor = tl.load(narrow + row * columns + channel, mask=row < rows, other=0.0).to(tl.float32)
        total += factor * tl.load(wide + row.to(tl.int64) * width + column, mask=here, other=0.0).to(tl.float32)
    entry = tl.arange(0, WIDTH)
    at = (tl.program_id(0) * (columns + 1) + channel).to(tl.int64) * width + entry
    tl.store(out + at, tl.sum(total, axis=0), mask=entry < width)
