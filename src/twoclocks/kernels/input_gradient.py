"""Gradient of a layer's input in Triton: d_out · weight, and for a layer behind GELU that of GELU's input at once.

    out = (d_out · weight) ⊙ GELU′(product + bias)

A library's product occupies whole multiprocessors. Two programs of this one fit on each, or one beside a program of
``weight_gradient``, so both go on side by side.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from twoclocks.kernels.activation import gelu_slope

TILE, DEPTH = (128, 128), 64  # of the result, and entries of the sum at a time
WARPS, STAGES = 8, 3
WIDEST = 512  # of the narrower side: beyond it a library's product is faster than what is gained beside it


def input_gradient(d_out: Tensor, weight: Tensor, product: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """(…, inputs) of d_out (…, outputs) and weight (outputs, inputs); product (…, inputs) and bias (inputs,)."""
    outputs, inputs = weight.shape
    out = d_out.new_empty(*d_out.shape[:-1], inputs)
    rows = out.numel() // inputs
    half = [TILE[0], TILE[1] // 2]
    assert (product is None) == (bias is None)
    before = out if product is None else product  # not read without a bias
    _input_gradient[(triton.cdiv(rows, TILE[0]), triton.cdiv(inputs, TILE[1]))](
        TensorDescriptor.from_tensor(d_out.view(rows, outputs), [TILE[0], DEPTH]),
        TensorDescriptor.from_tensor(weight, [DEPTH, TILE[1]]),
        TensorDescriptor.from_tensor(before.view(rows, inputs), half), bias,
        TensorDescriptor.from_tensor(out.view(rows, inputs), half),
        inputs, OUTPUTS=outputs, DEPTH=DEPTH, ROWS=TILE[0], COLUMNS=TILE[1], num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out


@triton.jit
def _input_gradient(
    d_out, weight, product, bias, out, inputs,
    OUTPUTS: tl.constexpr, DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    top, left = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for inner in range(0, OUTPUTS, DEPTH):
        total = tl.dot(d_out.load([top, inner]), weight.load([inner, left]), total)
    halves = tl.split(tl.permute(tl.reshape(total, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))
    for part in tl.static_range(2):  # half a tile at a time takes fewer registers
        start = left + part * (COLUMNS // 2)
        gradient = halves[part]
        if bias is not None:
            column = start + tl.arange(0, COLUMNS // 2)
            added = tl.load(bias + column, mask=column < inputs, other=0.0).to(tl.float32)[None, :]
            gradient *= gelu_slope(product.load([top, start]).to(tl.float32) + added)
        out.store([top, start], gradient.to(out.dtype))
