"""Residual update, normalisation and modulation in one pass over the tokens, in Triton.

    x' = x + gate ⊙ (update + bias)        y = LayerNorm(x') ⊙ (1 + scale) + shift

Gate, shift and scale are those of the sample (adaLN), or the same for all: then the gain stands for 1 + scale, and the
gate is one. The backward pass is one pass too, one program per sample or per part of a sample. It leaves the sums over
these tokens: the gradients of gate, shift and scale.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, WARPS = 2, 1  # tokens that a program holds, and its size; tuned on an H200
BACK_WARPS, BACK_STAGES = 2, 4  # in the backward pass, where a program walks through a sample
PROGRAMS = 768  # that keep a GPU busy in the backward pass


def forward(
    tokens: Tensor,
    update: Tensor | None,
    bias: Tensor | None,
    gate: Tensor | None,
    shift: Tensor,
    scale: Tensor,
    eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """x', y and the moments of x' for the backward pass; vectors are (n, width), or (1, width) or (width,) for all."""
    n, length, width = tokens.shape
    normed = torch.empty(tokens.shape, dtype=dtype, device=tokens.device)
    moved = torch.empty_like(tokens) if update is not None else tokens
    moments = torch.empty(n * length, 2, dtype=torch.float32, device=tokens.device)
    _normalise_forward[(triton.cdiv(n * length, ROWS),)](
        tokens, update, bias, gate, shift, scale, moved, normed, moments, n * length, length, width,
        _stride(shift), _stride(scale), _stride(gate), eps, ROWS=ROWS,
        WIDTH=triton.next_power_of_2(width), MODULATED=shift.dim() == 2, num_warps=WARPS,
    )  # fmt: skip
    return moved, normed, moments


def backward(
    moved: Tensor,
    moments: Tensor,
    update: Tensor | None,
    bias: Tensor | None,
    gate: Tensor | None,
    scale: Tensor,
    d_moved: Tensor | None,
    d_normed: Tensor,
    sums: tuple[Tensor | None, Tensor, Tensor],
) -> tuple[Tensor, Tensor | None]:
    """Gradients of tokens and update; ``sums`` (n, width), strided, get those of gate, shift and scale.

    With ``part_count(n, length)`` times as many rows, the sums are those of parts of a sample, one after the other.
    """
    n, length, width = moved.shape
    d_tokens = torch.empty_like(moved)
    d_update = torch.empty_like(update) if update is not None else None
    programs = len(sums[1])
    each = triton.cdiv(length, programs // n)
    _normalise_backward[(programs,)](
        moved, moments, update, bias, gate, scale, d_moved, d_normed, d_tokens, d_update, *sums,
        *(_stride(part) for part in sums), width, _stride(scale), _stride(gate), LENGTH=length, EACH=each,
        PARTS=programs // n, ROWS=2 if each > 16 and width <= 512 else 1, WIDTH=triton.next_power_of_2(width),
        MODULATED=scale.dim() == 2, STAGES=BACK_STAGES, num_warps=BACK_WARPS,
    )  # fmt: skip
    return d_tokens, d_update


def part_count(n: int, length: int) -> int:
    """Into how many programs the backward pass divides a sample, if sums over parts of it will do."""
    return min(length, triton.cdiv(PROGRAMS, n))


def _stride(vector: Tensor | None) -> int:
    return vector.stride(0) if vector is not None and vector.dim() == 2 and len(vector) > 1 else 0


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def _normalise_forward(
    tokens, update, bias, gate, shift, scale, moved, normed, moments, rows, length, width,
    shift_stride, scale_stride, gate_stride, eps, ROWS: tl.constexpr, WIDTH: tl.constexpr, MODULATED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    here = (row < rows) & (column < width)
    sample = (row // length).to(tl.int64)
    at = row.to(tl.int64) * width + column
    x = tl.load(tokens + at, mask=here, other=0.0).to(tl.float32)
    if update is not None:
        added = tl.load(update + at, mask=here, other=0.0).to(tl.float32)
        if bias is not None:
            added += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)
        if gate is not None:
            added *= tl.load(gate + sample * gate_stride + column, mask=here, other=0.0).to(tl.float32)
        stored = (x + added).to(moved.dtype.element_ty)
        tl.store(moved + at, stored, mask=here)
        x = stored.to(tl.float32)
    mean = tl.sum(x, axis=1)[:, None] / width
    centred = tl.where(here, x - mean, 0.0)
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1)[:, None] / width + eps)
    tl.store(moments + 2 * row, mean, mask=row < rows)
    tl.store(moments + 2 * row + 1, inverse, mask=row < rows)
    factor = tl.load(scale + sample * scale_stride + column, mask=here, other=0.0).to(tl.float32)
    if MODULATED:
        factor += 1.0
    y = centred * inverse * factor + tl.load(shift + sample * shift_stride + column, mask=here, other=0.0).to(
        tl.float32
    )
    tl.store(normed + at, y.to(normed.dtype.element_ty), mask=here)


@triton.jit
def _normalise_backward(
    moved, moments, update, bias, gate, scale, d_moved, d_normed, d_tokens, d_update, d_gate, d_shift, d_scale,
    gate_sum_stride, shift_stride, scale_sum_stride, width, scale_stride, gate_stride, LENGTH: tl.constexpr,
    EACH: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, MODULATED: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    sample, begin = program // PARTS, (tl.program_id(0) % PARTS) * EACH
    entry = tl.arange(0, WIDTH)
    column, wide = entry[None, :], entry[None, :] < width
    factor = tl.load(scale + sample * scale_stride + column, mask=wide, other=0.0).to(tl.float32)
    if MODULATED:
        factor += 1.0
    if gate is not None:
        gated = tl.load(gate + sample * gate_stride + column, mask=wide, other=0.0).to(tl.float32)
    if bias is not None:
        constant = tl.load(bias + column, mask=wide, other=0.0).to(tl.float32)
    sum_shift = tl.zeros((WIDTH,), tl.float32)
    sum_scale = tl.zeros((WIDTH,), tl.float32)
    sum_gate = tl.zeros((WIDTH,), tl.float32)
    for first in tl.range(0, EACH, ROWS, num_stages=STAGES):
        place = first + tl.arange(0, ROWS)[:, None]
        token = begin + place
        there = (place < EACH) & (token < LENGTH)
        here = there & wide
        row = sample * LENGTH + token
        at = row * width + column
        x = tl.load(moved + at, mask=here, other=0.0).to(tl.float32)
        dy = tl.load(d_normed + at, mask=here, other=0.0).to(tl.float32)
        mean = tl.load(moments + 2 * row, mask=there, other=0.0)
        inverse = tl.load(moments + 2 * row + 1, mask=there, other=0.0)
        y = tl.where(here, (x - mean) * inverse, 0.0)
        sum_shift += tl.sum(dy, axis=0)
        sum_scale += tl.sum(dy * y, axis=0)
        slope = dy * factor
        level, along = tl.reduce((slope, slope * y), 1, _add_pairs)
        dx = (slope - (level / width)[:, None] - y * (along / width)[:, None]) * inverse
        if d_moved is not None:
            dx += tl.load(d_moved + at, mask=here, other=0.0).to(tl.float32)
        dx = tl.where(here, dx, 0.0)
        tl.store(d_tokens + at, dx.to(d_tokens.dtype.element_ty), mask=here)
        if update is not None:
            if gate is not None:
                added = tl.load(update + at, mask=here, other=0.0).to(tl.float32)
                if bias is not None:
                    added += constant
                sum_gate += tl.sum(dx * added, axis=0)
                dx *= gated
            tl.store(d_update + at, dx.to(d_update.dtype.element_ty), mask=here)
    tl.store(d_shift + program * shift_stride + entry, sum_shift.to(d_shift.dtype.element_ty), mask=entry < width)
    tl.store(d_scale + program * scale_sum_stride + entry, sum_scale.to(d_scale.dtype.element_ty), mask=entry < width)
    if d_gate is not None:
        tl.store(d_gate + program * gate_sum_stride + entry, sum_gate.to(d_gate.dtype.element_ty), mask=entry < width)
