"""The DiT's noise embedding in Triton, with its backward pass: two kernels forward, three back.

All numbers are float32; products are as exact as torch's are set to be.

    hidden₁ = W₁ features + b₁,   hidden₂ = W₂ silu(hidden₁) + b₂,   condition = silu(hidden₂)

with the features cos(ωc), sin(ωc) of a label c. Torch takes some ten kernels each way for this little work, one after
the other, in front of and behind all that fills a GPU. Here features and SiLU are computed where they are read, and
tiles are small: many programs take part, and each is short.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn


class Tile(NamedTuple):
    """What a program makes of a result, what it reads for it at a time, and how it is compiled."""

    lines: int
    columns: int
    depth: int
    warps: int
    stages: int


FIRST, SECOND = Tile(16, 64, 64, 8, 3), Tile(16, 64, 64, 4, 3)  # of the layers' outputs
HIDDEN = Tile(16, 64, 64, 4, 3)  # of the gradient of hidden₁
FIRST_GRADIENT, SECOND_GRADIENT = Tile(32, 16, 64, 4, 3), Tile(32, 32, 64, 4, 3)  # of the weights


def forward(
    label: Tensor, omega: Tensor, first: nn.Linear, second: nn.Linear, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """hidden₁, hidden₂ (n, width) and the condition in ``dtype`` for labels (n,) and omega (frequencies/2,)."""
    rows, width = len(label), len(first.weight)
    hidden_1, hidden_2 = (torch.empty(rows, width, dtype=torch.float32, device=label.device) for _ in range(2))
    condition = torch.empty_like(hidden_1, dtype=dtype)
    _first_layer[_grid(rows, width, FIRST)](
        label, omega, first.weight, first.bias, hidden_1, rows, WIDTH=width, HALF=len(omega), **_compiled(FIRST)
    )
    _second_layer[_grid(rows, width, SECOND)](
        hidden_1, second.weight, second.bias, hidden_2, condition, rows, WIDTH=width, **_compiled(SECOND)
    )
    return hidden_1, hidden_2, condition


def second_gradient(d_condition: Tensor, hidden_1: Tensor, hidden_2: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Write the gradients of W₂ and b₂ to ``weight`` and ``bias``."""
    rows, width = hidden_1.shape
    _second_gradient[_grid(width, width, SECOND_GRADIENT)](
        d_condition, hidden_1, hidden_2, weight, bias, ROWS=rows, WIDTH=width, **_compiled(SECOND_GRADIENT)
    )


def hidden_gradient(d_condition: Tensor, hidden_1: Tensor, hidden_2: Tensor, weight: Tensor) -> Tensor:
    """The gradient of hidden₁; ``weight`` is W₂."""
    rows, width = hidden_1.shape
    out = torch.empty_like(hidden_1)
    _hidden_gradient[_grid(rows, width, HIDDEN)](
        d_condition, hidden_1, hidden_2, weight, out, rows, WIDTH=width, **_compiled(HIDDEN)
    )
    return out


def first_gradient(d_hidden_1: Tensor, label: Tensor, omega: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Write the gradients of W₁ and b₁ to ``weight`` and ``bias``."""
    rows, width = d_hidden_1.shape
    _first_gradient[_grid(width, len(omega), FIRST_GRADIENT)](
        d_hidden_1, label, omega, weight, bias, ROWS=rows, WIDTH=width, HALF=len(omega), **_compiled(FIRST_GRADIENT)
    )


def _grid(lines: int, columns: int, tile: Tile) -> tuple[int, int]:
    return triton.cdiv(lines, tile.lines), triton.cdiv(columns, tile.columns)


def _compiled(tile: Tile) -> dict[str, int | str]:
    """What a kernel is compiled for; its products are as exact as torch's are set to be."""
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    sizes = {"LINES": tile.lines, "COLUMNS": tile.columns, "DEPTH": tile.depth}
    return {**sizes, "PRECISION": precision, "num_warps": tile.warps, "num_stages": tile.stages}


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def silu_slope(x):
    share = tl.sigmoid(x)
    return share * (1.0 + x * (1.0 - share))


@triton.jit
def _read(matrix, line, column, lines, columns):
    """A tile of a matrix (lines, columns) in float32, with zeros beyond its edges."""
    here = (line < lines) & (column < columns)
    return tl.load(matrix + line * columns + column, mask=here, other=0.0).to(tl.float32)


@triton.jit
def _operand(x, PRECISION: tl.constexpr):
    """What a product reads: for TF32 rounded, since Triton cuts off, which brings every number nearer to zero."""
    if PRECISION == "tf32":
        rounded = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
        x = tl.where(x == x, rounded, x)  # the bits of a GPU's NaN would become a zero
    return x


@triton.jit
def _product(left, right, total, PRECISION: tl.constexpr):
    return tl.dot(_operand(left, PRECISION), _operand(right, PRECISION), total, input_precision=PRECISION)


@triton.jit
def _once(x, here):
    """x, computed once. Without ``where``, Triton 3.6 has every warp compute what a product reads of all of them."""
    return tl.where(here, x, 0.0)


@triton.jit
def _first_layer(
    label, omega, weight, bias, hidden, rows,
    WIDTH: tl.constexpr, HALF: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    c = tl.load(label + row, mask=row < rows, other=0.0).to(tl.float32)
    total = tl.zeros((LINES, COLUMNS), tl.float32)
    for start in range(0, HALF, DEPTH):
        entry = start + tl.arange(0, DEPTH)
        frequency = tl.load(omega + entry, mask=entry < HALF, other=0.0)[None, :]
        phase = _once(c * frequency, entry[None, :] < HALF)
        at = weight + column * (2 * HALF) + entry[:, None]
        here = (entry[:, None] < HALF) & (column < WIDTH)
        total = _product(tl.cos(phase), tl.load(at, mask=here, other=0.0), total, PRECISION)
        total = _product(tl.sin(phase), tl.load(at + HALF, mask=here, other=0.0), total, PRECISION)
    total += tl.load(bias + column, mask=column < WIDTH, other=0.0)
    tl.store(hidden + row * WIDTH + column, total, mask=(row < rows) & (column < WIDTH))


@triton.jit
def _second_layer(
    hidden_1, weight, bias, hidden_2, condition, rows,
    WIDTH: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((LINES, COLUMNS), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        entry = start + tl.arange(0, DEPTH)
        activated = _once(silu(_read(hidden_1, row, entry[None, :], rows, WIDTH)), entry[None, :] < WIDTH)
        total = _product(activated, _read(weight, column, entry[:, None], WIDTH, WIDTH), total, PRECISION)
    total += tl.load(bias + column, mask=column < WIDTH, other=0.0)
    at, here = row * WIDTH + column, (row < rows) & (column < WIDTH)
    tl.store(hidden_2 + at, total, mask=here)
    tl.store(condition + at, silu(total).to(condition.dtype.element_ty), mask=here)


@triton.jit
def _second_gradient(
    d_condition, hidden_1, hidden_2, weight, bias,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total, sums = tl.zeros((LINES, COLUMNS), tl.float32), tl.zeros((LINES, DEPTH), tl.float32)
    for start in range(0, ROWS, DEPTH):
        row = start + tl.arange(0, DEPTH)
        slope = silu_slope(_read(hidden_2, row[None, :], line, ROWS, WIDTH))
        d_hidden_2 = _read(d_condition, row[None, :], line, ROWS, WIDTH) * slope
        activated = silu(_read(hidden_1, row[:, None], column, ROWS, WIDTH))
        total = _product(d_hidden_2, activated, total, PRECISION)
        sums += d_hidden_2
    tl.store(weight + line * WIDTH + column, total, mask=(line < WIDTH) & (column < WIDTH))
    tl.store(bias + line, tl.sum(sums, axis=1)[:, None], mask=(line < WIDTH) & (tl.program_id(1) == 0))


@triton.jit
def _hidden_gradient(
    d_condition, hidden_1, hidden_2, weight, d_hidden_1, rows,
    WIDTH: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((LINES, COLUMNS), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        entry = start + tl.arange(0, DEPTH)
        slope = silu_slope(_read(hidden_2, row, entry[None, :], rows, WIDTH))
        d_hidden_2 = _read(d_condition, row, entry[None, :], rows, WIDTH) * slope
        d_hidden_2 = _once(d_hidden_2, entry[None, :] < WIDTH)
        total = _product(d_hidden_2, _read(weight, entry[:, None], column, WIDTH, WIDTH), total, PRECISION)
    total *= silu_slope(_read(hidden_1, row, column, rows, WIDTH))
    tl.store(d_hidden_1 + row * WIDTH + column, total, mask=(row < rows) & (column < WIDTH))


@triton.jit
def _first_gradient(
    d_hidden_1, label, omega, weight, bias,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, HALF: tl.constexpr,
    LINES: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    cosines, sines = tl.zeros((LINES, COLUMNS), tl.float32), tl.zeros((LINES, COLUMNS), tl.float32)
    sums = tl.zeros((LINES, DEPTH), tl.float32)
    frequency = tl.load(omega + column, mask=column < HALF, other=0.0)
    for start in range(0, ROWS, DEPTH):
        row = start + tl.arange(0, DEPTH)
        d_hidden = _read(d_hidden_1, row[None, :], line, ROWS, WIDTH)
        c = tl.load(label + row, mask=row < ROWS, other=0.0).to(tl.float32)[:, None]
        phase = _once(c * frequency, row[:, None] < ROWS)
        cosines = _product(d_hidden, tl.cos(phase), cosines, PRECISION)
        sines = _product(d_hidden, tl.sin(phase), sines, PRECISION)
        sums += d_hidden
    at, here = weight + line * (2 * HALF) + column, (line < WIDTH) & (column < HALF)
    tl.store(at, cosines, mask=here)
    tl.store(at + HALF, sines, mask=here)
    tl.store(bias + line, tl.sum(sums, axis=1)[:, None], mask=(line < WIDTH) & (tl.program_id(1) == 0))
