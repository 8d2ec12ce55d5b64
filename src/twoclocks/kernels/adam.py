"""Adam and AdamW on flat memory in Triton: values, moments and bfloat16 shadows in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from twoclocks.kernels.flat_adam import FlatAdam

BLOCK = 1024


class ShadowAdam(FlatAdam):
    """Renews the shadows in the same pass."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        (group,) = self.param_groups
        size = self.flat.values.numel()
        self.steps += 1
        _adam[(triton.cdiv(size, BLOCK),)](
            self.flat.values, self.flat.gradients, self.first, self.second, self.flat.shadows, self.steps, size,
            group["lr"], *group["betas"], *(math.log(beta) for beta in group["betas"]), group["eps"],
            group["weight_decay"], DECOUPLED=group["decoupled"], BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip


@triton.jit
def _correction(steps, log_beta):
    """1 − β^steps, without the cancellation of the first steps."""
    x = steps * log_beta
    series = -x * (1.0 + x * (0.5 + x * (0.16666667 + x * 0.041666667)))
    return tl.where(x > -0.05, series, 1.0 - tl.exp(x))


@triton.jit
def _adam(
    values, gradients, first, second, shadows, steps, size, rate, beta_1, beta_2, log_beta_1, log_beta_2, eps, decay,
    DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < size
    taken = tl.load(steps)
    value = tl.load(values + at, mask=here, other=0.0)
    gradient = tl.load(gradients + at, mask=here, other=0.0)
    if DECOUPLED:
        value -= rate * decay * value
    else:
        gradient += decay * value
    mean = tl.load(first + at, mask=here, other=0.0)
    square = tl.load(second + at, mask=here, other=0.0)
    mean += (1.0 - beta_1) * (gradient - mean)
    square = beta_2 * square + (1.0 - beta_2) * gradient * gradient
    root = tl.sqrt(square) / tl.sqrt(_correction(taken, log_beta_2)) + eps
    value -= rate / _correction(taken, log_beta_1) * mean / root
    tl.store(first + at, mean, mask=here)
    tl.store(second + at, square, mask=here)
    tl.store(values + at, value, mask=here)
    tl.store(shadows + at, value.to(shadows.dtype.element_ty), mask=here)
