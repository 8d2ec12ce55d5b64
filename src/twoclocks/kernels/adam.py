"""Adam and AdamW on flat memory in Triton: values, moments and bfloat16 shadows in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from twoclocks.kernels.flat import Flat, Rate

BLOCK = 1024


class FlatAdam(torch.optim.Optimizer):
    """torch's Adam, or with ``decoupled`` its AdamW, for the parameters of a ``Flat``, whose shadows it renews.

    Its state is interchangeable with that of torch's optimizers. A rate that is a tensor is read at every step. Most of
    an update is memory traffic, for which the products of a backward pass leave room: see ``during_backward``.
    """

    def __init__(
        self,
        flat: Flat,
        lr: Rate,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.flat = flat
        self.first, self.second = torch.zeros_like(flat.values), torch.zeros_like(flat.values)
        self.steps = torch.zeros(len(flat.parameters), device=flat.values.device)  # all the same, one per parameter
        self.updated: list[tuple[int, int]] = []  # what this step has changed already
        chosen = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "decoupled": decoupled}
        super().__init__(flat.parameters, chosen)
        self.share()

    def share(self) -> None:
        """Show the flat moments under the names that torch's Adam gives them."""
        for step, parameter in zip(self.steps, self.flat.parameters, strict=True):
            self.state[parameter] = {
                "step": step,
                "exp_avg": self.flat.view(self.first, parameter),
                "exp_avg_sq": self.flat.view(self.second, parameter),
            }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copies the moments into the flat memory, where a captured step reads them."""
        super().load_state_dict(state_dict)
        for parameter, moments in list(self.state.items()):
            self.flat.view(self.first, parameter).copy_(moments["exp_avg"])
            self.flat.view(self.second, parameter).copy_(moments["exp_avg_sq"])
            self.steps.fill_(float(moments["step"]))
        self.updated.clear()
        if not self.state:
            for memory in (self.first, self.second, self.steps):
                memory.zero_()
        self.share()

    @contextmanager
    def during_backward(self) -> Iterator[None]:
        """Inside, the backward pass may change weights as soon as their gradients are there; ``step`` changes the rest.

        A ``step`` must follow, and nothing may change the gradients or the rate before it. A backward pass that fails
        leaves the weights partly changed.
        """
        self.updated.clear()
        self.flat.early_update = partial(self.update)  # another object for every backward pass
        try:
            yield
        except BaseException:
            self.flat.written.clear()  # or the next pass would find gradients written twice
            raise
        finally:
            self.flat.early_update = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for start, end in gaps(self.updated, self.flat.values.numel()):
            self.update(start, end)
        self.updated.clear()
        self.steps += 1

    def update(self, start: int, end: int, shadows: bool = True) -> None:
        """Change a part of the flat memory, with its shadows or without.

        Without them, new ones are written all the same, but not to where they are read: a kernel of its own could
        round its numbers in another way.
        """
        (group,) = self.param_groups
        flat, part = self.flat, slice(start, end)
        memories = flat.values, flat.gradients, self.first, self.second, flat.shadows if shadows else flat.unread
        _adam[(triton.cdiv(end - start, BLOCK),)](
            *(memory[part] for memory in memories), self.steps, end - start,
            group["lr"], *group["betas"], *(math.log(beta) for beta in group["betas"]), group["eps"],
            group["weight_decay"], DECOUPLED=group["decoupled"], CHANGES=isinstance(group["lr"], torch.Tensor),
            BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
        self.updated.append((start, end))


def gaps(parts: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """What the parts leave of 0 … size.

    >>> gaps([(6, 8), (2, 4)], 9)
    [(0, 2), (4, 6), (8, 9)]
    """
    borders = [0, *itertools.chain(*sorted(parts)), size]
    return [(start, end) for start, end in zip(borders[::2], borders[1::2], strict=True) if start < end]


@triton.jit
def _correction(steps, log_beta):
    """1 − β^steps, without the cancellation of the first steps."""
    x = steps * log_beta
    series = -x * (1.0 + x * (0.5 + x * (0.16666667 + x * 0.041666667)))
    return tl.where(x > -0.05, series, 1.0 - tl.exp(x))


@triton.jit
def _adam(
    values, gradients, first, second, shadows, steps, size, rate, beta_1, beta_2, log_beta_1, log_beta_2, eps, decay,
    DECOUPLED: tl.constexpr, CHANGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < size
    taken = tl.load(steps) + 1.0
    value = tl.load(values + at, mask=here, other=0.0)
    gradient = tl.load(gradients + at, mask=here, other=0.0)
    if CHANGES:
        rate = tl.load(rate)
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
