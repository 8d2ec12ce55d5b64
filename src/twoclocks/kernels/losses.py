"""Mean squared error and mean cross-entropy of each sample in Triton: one kernel forward, one backward.

With torch's operations they are several kernels forward and several backward, each of which takes longer to start than
to compute. The gradient of a sum over samples is one number, repeated. The kernels read gradients with their stride, 0
there, so that none is copied.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TILE = 2048  # numbers that a program holds, unless a row of logits has more
MOST_SYMBOLS = 16_384  # of which a program holds a whole row


def takes_images(out: Tensor, target: Tensor) -> bool:
    """Whether ``mean_squared_error`` takes this output of a network and its target."""
    alike = out.shape == target.shape and out.dtype == target.dtype == torch.float32
    return alike and out.dim() > 1 and out.numel() > 0 and _within_reach(out)


def takes_tokens(logits: Tensor, clean: Tensor) -> bool:
    """Whether ``mean_cross_entropy`` takes this output of a network and these tokens."""
    alike = logits.shape[:-1] == clean.shape and clean.dim() == 2
    typed = logits.dtype == torch.float32 and clean.dtype == torch.int64
    return alike and typed and logits.numel() > 0 and logits.shape[2] <= MOST_SYMBOLS and _within_reach(logits)


def mean_squared_error(out: Tensor, target: Tensor) -> Tensor:
    """Squared error (n,) of ``out`` (n, *shape), averaged over the entries of a sample; the target gets no gradient."""
    error: Tensor = MeanSquaredError.apply(out.contiguous(), target.contiguous())
    return error


def mean_cross_entropy(logits: Tensor, clean: Tensor) -> Tensor:
    """Cross-entropy (n,) in nats of tokens (n, length) under ``logits`` (n, length, symbols), averaged over the length.

    A token that is no symbol makes the loss of its sample NaN, where torch would stop the program.
    """
    entropy: Tensor = MeanCrossEntropy.apply(logits.contiguous(), clean.contiguous())
    return entropy


def _within_reach(out: Tensor) -> bool:
    """Whether kernels can read it; on the CPU, Triton's interpreter can."""
    return out.is_cuda or (out.device.type == "cpu" and triton.knobs.runtime.interpret)


class MeanSquaredError(Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(out, target)
        n, entries = out.flatten(1).shape
        loss = out.new_empty(n)
        block = _block(entries)
        turns = triton.cdiv(entries, block["BLOCK"])
        _squared_error_forward[(n,)](out, target, loss, entries, TURNS=turns, **block)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> Any:
        out, target = ctx.saved_tensors
        n, entries = out.flatten(1).shape
        d_out, block = torch.empty_like(out), _block(entries)
        grid = n, triton.cdiv(entries, block["BLOCK"])
        _squared_error_backward[grid](out, target, d_loss, d_out, entries, d_loss.stride(0), **block)
        return d_out, None


class MeanCrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, clean: Tensor) -> Tensor:
        ctx.save_for_backward(logits, clean)
        n, length, symbols = logits.shape
        loss = logits.new_empty(n)
        rows = _rows(length, symbols)
        turns = triton.cdiv(length, rows["ROWS"])
        _cross_entropy_forward[(n,)](logits, clean, loss, length, symbols, TURNS=turns, **rows)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> Any:
        logits, clean = ctx.saved_tensors
        n, length, symbols = logits.shape
        d_logits, rows = torch.empty_like(logits), _rows(length, symbols)
        grid = n, triton.cdiv(length, rows["ROWS"])
        _cross_entropy_backward[grid](logits, clean, d_loss, d_logits, length, symbols, d_loss.stride(0), **rows)
        return d_logits, None


def _block(entries: int) -> dict[str, int]:
    """Entries that a program holds at a time, and its size."""
    block = min(TILE, triton.next_power_of_2(entries))
    return {"BLOCK": block, "num_warps": _warps(block)}


def _rows(length: int, symbols: int) -> dict[str, int]:
    """Tokens and symbols that a program holds at a time, and its size."""
    padded = triton.next_power_of_2(symbols)
    rows = min(triton.next_power_of_2(length), max(1, TILE // padded))
    return {"ROWS": rows, "SYMBOLS": padded, "num_warps": _warps(rows * padded)}


def _warps(numbers: int) -> int:
    return min(8, max(1, numbers // 512))


@triton.jit
def _squared_error_forward(out, target, loss, entries, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(TURNS):
        entry = turn * BLOCK + tl.arange(0, BLOCK)
        here = entry < entries
        at = sample * entries + entry
        error = tl.load(out + at, mask=here, other=0.0) - tl.load(target + at, mask=here, other=0.0)
        total += error * error
    tl.store(loss + sample, tl.sum(total, axis=0) / entries)


@triton.jit
def _squared_error_backward(out, target, d_loss, d_out, entries, stride, BLOCK: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64)
    entry = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = entry < entries
    at = sample * entries + entry
    slope = tl.load(d_loss + sample * stride) * (2.0 / entries)
    error = tl.load(out + at, mask=here, other=0.0) - tl.load(target + at, mask=here, other=0.0)
    tl.store(d_out + at, error * slope, mask=here)


@triton.jit
def _tokens(logits, clean, sample, first, length, symbols, ROWS: tl.constexpr, SYMBOLS: tl.constexpr):
    """Where the logits of some tokens of a sample lie, which of these places exist, and the logits.

    Then which logit is the token's, and whether the token is a symbol: it is compared with all of them, and is never
    an address. From each logit the largest of its row is taken away, so that exp cannot overflow.
    """
    row = first + tl.arange(0, ROWS)[:, None]
    symbol = tl.arange(0, SYMBOLS)[None, :]
    here = (row < length) & (symbol < symbols)
    at = (sample * length + row) * symbols + symbol
    x = tl.where(symbol < symbols, tl.load(logits + at, mask=here, other=0.0), float("-inf"))
    x -= tl.max(x, axis=1)[:, None]
    token = tl.load(clean + sample * length + row, mask=row < length, other=0)
    return at, here, x, symbol == token, (token >= 0) & (token < symbols)


@triton.jit
def _cross_entropy_forward(
    logits, clean, loss, length, symbols, TURNS: tl.constexpr, ROWS: tl.constexpr, SYMBOLS: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)
    total = tl.zeros((ROWS, 1), tl.float32)
    for turn in range(TURNS):
        first = turn * ROWS
        _, _, x, hit, known = _tokens(logits, clean, sample, first, length, symbols, ROWS, SYMBOLS)
        entropy = tl.log(tl.sum(tl.exp(x), axis=1)) - tl.sum(tl.where(hit, x, 0.0), axis=1)
        there = first + tl.arange(0, ROWS)[:, None] < length
        total += tl.where(there, tl.where(known, entropy[:, None], float("nan")), 0.0)
    tl.store(loss + sample, tl.sum(tl.sum(total, axis=1), axis=0) / length)


@triton.jit
def _cross_entropy_backward(
    logits, clean, d_loss, d_logits, length, symbols, stride, ROWS: tl.constexpr, SYMBOLS: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * ROWS
    at, here, x, hit, known = _tokens(logits, clean, sample, first, length, symbols, ROWS, SYMBOLS)
    chance = tl.exp(x)
    chance /= tl.sum(chance, axis=1)[:, None]
    slope = (chance - tl.where(hit, 1.0, 0.0)) * (tl.load(d_loss + sample * stride) / length)
    tl.store(d_logits + at, tl.where(known, slope, float("nan")), mask=here)
