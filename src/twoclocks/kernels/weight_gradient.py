"""Gradient of a weight in Triton: d_outᵀ · x, summed over many rows into a small matrix.

A library splits such a sum over multiprocessors and adds the parts up afterwards. Here a tile of the result is one
program that walks through all rows: fewer multiprocessors are busy for longer, beside the backward pass's kernels, and
nothing is left to add.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from twoclocks.kernels import tma
from twoclocks.kernels.column_sums import column_sums

DEPTH, STAGES = 64, 4  # rows at a time, and pipeline stages
TILE, WARPS = (64, 128), 4  # of the result, and the size of a program
WIDE, WIDE_TILE, WIDE_WARPS = 768, (128, 128), 8  # where both sides have so many entries, larger tiles read less


def layer_gradient(d_out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """weight = d_outᵀ · x and bias = the sum of d_out over rows, in float32."""
    if tma.fits(d_out, x):
        weight_gradient(d_out, x, weight, bias)
        return
    float_product(d_out.T, x, weight)
    if bias is not None:
        column_sums(d_out, out=bias)


def float_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """out = left · right, rounded to nothing less than float32."""
    if left.is_cuda and left.dtype != torch.float32:
        torch.mm(left, right, out_dtype=torch.float32, out=out)
    else:
        torch.mm(left.float(), right.float(), out=out)


def weight_gradient(d_out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """weight (outputs, inputs) = d_outᵀ · x of (rows, outputs) and (rows, inputs); bias = the sum of d_out's rows."""
    rows, outputs, inputs = len(x), d_out.shape[1], x.shape[1]
    tile, warps = (WIDE_TILE, WIDE_WARPS) if min(outputs, inputs) >= WIDE else (TILE, WARPS)
    _weight_gradient[(triton.cdiv(outputs, tile[0]), triton.cdiv(inputs, tile[1]))](
        TensorDescriptor.from_tensor(d_out, [DEPTH, tile[0]]), TensorDescriptor.from_tensor(x, [DEPTH, tile[1]]),
        weight, bias, outputs, inputs, ROWS=rows, DEPTH=DEPTH, TILE_OUT=tile[0], TILE_IN=tile[1],
        num_warps=warps, num_stages=STAGES,
    )  # fmt: skip


@triton.jit
def _weight_gradient(
    d_out, x, weight, bias, outputs, inputs,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, TILE_OUT: tl.constexpr, TILE_IN: tl.constexpr,
):  # fmt: skip
    top, left = tl.program_id(0) * TILE_OUT, tl.program_id(1) * TILE_IN
    line, column = top + tl.arange(0, TILE_OUT)[:, None], left + tl.arange(0, TILE_IN)[None, :]
    total = tl.zeros((TILE_OUT, TILE_IN), tl.float32)
    if (bias is not None) and (left == 0):  # the sum over rows is a product with ones, which costs next to nothing
        ones = tl.full((DEPTH, 16), 1.0, d_out.dtype)
        sums = tl.zeros((TILE_OUT, 16), tl.float32)
        for row in range(0, ROWS, DEPTH):  # rows beyond the last are read as zeros
            slope = d_out.load([row, top]).T
            total = tl.dot(slope, x.load([row, left]), total)
            sums = tl.dot(slope, ones, sums)
        first = tl.arange(0, 16)[None, :] == 0
        tl.store(bias + line + tl.zeros((1, 16), tl.int32), sums, mask=(line < outputs) & first)
    else:
        for row in range(0, ROWS, DEPTH):
            total = tl.dot(d_out.load([row, top]).T, x.load([row, left]), total)
    tl.store(weight + line * inputs + column, total, mask=(line < outputs) & (column < inputs))
