"""Sums over the rows of a tall matrix in Triton, in float32: the last step of many gradients.

A library gives such a sum to few programs, each with many columns: 33 µs for 768 × 9,984 on an H200.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 128, 16  # that a program adds up at a time


def column_sums(x: Tensor, out: Tensor | None = None) -> Tensor:
    """The sums (columns,) of x (rows, columns), whose rows may lie apart."""
    rows, columns = x.shape
    x = x if x.stride(1) == 1 else x.contiguous()
    out = torch.empty(columns, dtype=torch.float32, device=x.device) if out is None else out
    assert out.numel() == columns and out.is_contiguous()
    _column_sums[(triton.cdiv(columns, COLUMNS),)](
        x, out, rows, columns, x.stride(0), TURNS=triton.cdiv(rows, ROWS), ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4
    )
    return out


@triton.jit
def _column_sums(x, out, rows, columns, stride, TURNS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for turn in range(TURNS):
        row = turn * ROWS + tl.arange(0, ROWS)[:, None]
        here = (row < rows) & (column[None, :] < columns)
        total += tl.load(x + row.to(tl.int64) * stride + column[None, :], mask=here, other=0.0).to(tl.float32)
    tl.store(out + column, tl.sum(total, axis=0), mask=column < columns)
