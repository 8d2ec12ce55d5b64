"""The same operations for the CPU in float32: all blocks are one node of autograd with a hand-written backward pass.

The products take half of a small network's step; calls from Python, nodes of autograd and passes over memory take the
rest. Here are as few of them as PyTorch's own kernels allow. That pays twice where several threads share a batch, since
only one of them at a time can be in Python.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from twoclocks.kernels import branches as lean_branches
from twoclocks.kernels.flat import Flat
from twoclocks.kernels.plain import Branch, Modulation, Operations, Update


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """By TorchScript, which is deprecated and still the only way out of Python; else the function itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.script(function)
    except (AttributeError, RuntimeError, OSError):  # not there any more, not for this Python, or no source to read
        return function


forward, backward = compiled(lean_branches.forward), compiled(lean_branches.backward)


class LeanOperations(Operations):
    """Operations of one network; ``join`` before its gradients are read. Each weight may be used once a step."""

    def __init__(self, network: nn.Module) -> None:
        self.flat = Flat(network, stacks=getattr(network, "stacks", ()))

    def join(self) -> None:
        self.flat.gather()

    def modulations(self, condition: Tensor, layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
        whole: Tensor = Stacked.apply(condition, self.flat, tuple(layers))
        return whole.split(condition.shape[1], dim=1)

    def branches(self, tokens: Tensor, branches: Sequence[Branch]) -> tuple[Tensor, Update | None]:
        conditionings = [vector for branch in branches for vector in vectors_of(branch.conditioning)]
        layers = [layer for branch in branches for layer in (branch.first, branch.last)]
        weights = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
        heads = [branch.heads for branch in branches]
        given = heads, any(branch.causal for branch in branches), branches[0].conditioning.eps
        if torch.is_grad_enabled():
            return Branches.apply(tokens, self.flat, weights, *given, *conditionings), None
        return forward(tokens, conditionings, weights, *given, False)[0], None


def vectors_of(conditioning: Modulation | nn.LayerNorm) -> tuple[Tensor, ...]:
    return conditioning[:3] if isinstance(conditioning, Modulation) else (conditioning.weight, conditioning.bias)


class Branches(Function):
    """Gradients of weights do not pass through autograd: they are written where the optimizer reads them."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, flat: Flat, weights: list[Tensor], heads: list[int], causal: bool, eps: float,
        *conditionings: Tensor,
    ) -> Tensor:  # fmt: skip
        out, kept = forward(tokens, list(conditionings), weights, heads, causal, eps, True)
        ctx.flat, ctx.weights, ctx.heads, ctx.causal = flat, weights, heads, causal
        ctx.save_for_backward(*conditionings, *kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        saved, count = list(ctx.saved_tensors), len(ctx.needs_input_grad) - 6
        places = [ctx.flat.slot(weight) for weight in ctx.weights]
        given = saved[count:], saved[:count], ctx.weights, places, ctx.heads, ctx.causal
        d_tokens, *d_conditionings = backward(d_out.contiguous(), *given)
        return d_tokens, None, None, None, None, None, *d_conditionings


class Stacked(Function):
    """x (n, width) through several layers at once: their outputs side by side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, flat: Flat, layers: tuple[nn.Linear, ...]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.flat, ctx.weights, ctx.biases = flat, [la.weight for la in layers], [la.bias for la in layers]
        return torch.addmm(flat.stacked(flat.values, ctx.biases), x, flat.stacked(flat.values, ctx.weights).t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        for parameter in (*ctx.weights, *ctx.biases):
            ctx.flat.slot(parameter)
        torch.mm(d_out.t(), x, out=ctx.flat.stacked(ctx.flat.gradients, ctx.weights))
        torch.sum(d_out, dim=0, out=ctx.flat.stacked(ctx.flat.gradients, ctx.biases))
        return d_out @ ctx.flat.stacked(ctx.flat.values, ctx.weights), None, None
