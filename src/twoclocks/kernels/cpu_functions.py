"""The CPU's fused operations as nodes of autograd, in float32.

Matrix products are torch's own, which are MKL's, or oneDNN's where those are faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from twoclocks.core.processor import ZEN_5, amd_family

gelu_backward = torch.ops.aten.gelu_backward.default
layer_norm_backward = torch.ops.aten.native_layer_norm_backward.default


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """activation(x Wᵀ + b) for x (…, inputs) and W (outputs, inputs); "gelu" costs little more than "none"."""
    if prefers_onednn():
        return onednn_product(x, weight, bias, activation)
    out = functional.linear(x, weight, bias)
    return functional.gelu(out) if activation == "gelu" else out


@cache
def prefers_onednn() -> bool:
    """Whether oneDNN's products are faster than torch's own: on AMD's processors with vector units of 512 bits.

    MKL leaves those unused. On older ones of AMD and on Intel's, MKL is faster (docs/speed.md). The answer depends on
    the processor alone: a measured choice could change from run to run, and with it the last bits of a result.
    """
    return (amd_family() >= ZEN_5 or not torch.backends.mkl.is_available()) and has_onednn()


def onednn_product(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    out: Tensor = onednn_linear()(x, weight, bias, activation, [], "none")
    return out


def onednn_weight_gradient(d_out: Tensor, x: Tensor) -> Tensor:
    """d_outᵀ x; oneDNN is faster where its result has fewer rows than columns."""
    if d_out.shape[1] > x.shape[1]:
        return onednn_product(x.t(), d_out.t()).t()
    return onednn_product(d_out.t(), x.t())


@cache
def onednn_linear() -> Callable[..., Tensor]:
    """Found once: a search among torch's operations takes as long as a small product."""
    return torch.ops.mkldnn._linear_pointwise.default


@cache
def has_onednn() -> bool:
    """Whether this build of torch has the product, and it computes what it should."""
    x, weight, bias = torch.linspace(-3, 3, 6).view(3, 2), torch.tensor([[1.0, -0.5], [0.25, 2.0]]), torch.ones(2)
    try:
        found = onednn_product(x, weight, bias), onednn_product(x, weight, bias, "gelu")
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    expected = functional.linear(x, weight, bias)
    pairs = zip(found, (expected, functional.gelu(expected)), strict=True)
    return all(torch.allclose(mine, theirs, atol=1e-5) for mine, theirs in pairs)


def layer_gradients(d_out: Tensor, x: Tensor, weight: Tensor, needs_input: bool = True) -> tuple[Tensor | None, ...]:
    """Gradients of x, the weight and the bias from that of x Wᵀ + b."""
    rows, inputs = d_out.reshape(-1, d_out.shape[-1]), x.reshape(-1, x.shape[-1])
    d_weight = onednn_weight_gradient(rows, inputs) if prefers_onednn() else rows.t() @ inputs
    return product(d_out, weight.t()) if needs_input else None, d_weight, rows.sum(dim=0)


def check_first_derivative() -> None:
    """Called by every backward pass; torch's own check takes as long as a small operation."""
    if torch.is_grad_enabled():  # with create_graph=True
        raise RuntimeError("the CPU's fused operations have no second derivatives; use training.kernels plain")


class Linear(Function):
    """x Wᵀ + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        check_first_derivative()
        x, weight = ctx.saved_tensors
        d_x, d_weight, d_bias = layer_gradients(d_out, x, weight, ctx.needs_input_grad[0])
        return d_x, d_weight, d_bias if ctx.has_bias else None


class Activate(Function):
    """GELU of x Wᵀ + b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        inner = product(x, weight, bias)
        ctx.save_for_backward(x, weight, inner)
        return functional.gelu(inner)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        check_first_derivative()
        x, weight, inner = ctx.saved_tensors
        return layer_gradients(gelu_backward(d_out, inner), x, weight)


class Modulate(Function):
    """tokens + gate ⊙ value, and this normalised, times 1 + scale, plus shift; vectors are (n or 1, width)."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, value: Tensor | None, gate: Tensor | None, shift: Tensor, scale: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        if value is not None and gate is not None:
            tokens = torch.addcmul(tokens, gate[:, None], value)
        neutral = neutral_vectors(tokens.shape[-1], tokens.dtype)  # without them torch takes twice the time
        normed, mean, rstd = torch.native_layer_norm(tokens, tokens.shape[-1:], *neutral, eps)
        factor = scale + 1
        ctx.save_for_backward(tokens, value, gate, normed, mean, rstd, factor)
        return tokens, torch.addcmul(shift[:, None], normed, factor[:, None])

    @staticmethod
    def backward(ctx: Any, d_moved: Tensor | None, d_out: Tensor) -> Any:
        check_first_derivative()
        moved, value, gate, normed, mean, rstd, factor = ctx.saved_tensors
        d_shift, d_scale = sum_like(d_out, factor), sum_like(d_out * normed, factor)
        vectors = None, None, [True, False, False]
        d_normed = d_out * factor[:, None]
        d_tokens, *_ = layer_norm_backward(d_normed, moved, moved.shape[-1:], mean, rstd, *vectors)
        if d_moved is not None:
            d_tokens.add_(d_moved)
        if value is None:
            return d_tokens, None, None, d_shift, d_scale, None
        return d_tokens, d_tokens * gate[:, None], sum_like(d_tokens * value, gate), d_shift, d_scale, None


@cache
def neutral_vectors(width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A gain and a bias (width,) of a normalisation that change nothing."""
    return torch.ones(width, device="cpu", dtype=dtype), torch.zeros(width, device="cpu", dtype=dtype)


def sum_like(values: Tensor, vectors: Tensor) -> Tensor:
    """Sums of values (n, length, width) over tokens: (n, width), or (1, width) where all samples share the vector."""
    return values.sum(dim=1) if len(vectors) == len(values) else values.sum(dim=(0, 1))[None]


class Normalise(Function):
    """tokens + value, and this normalised with a gain and a bias (width,)."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, value: Tensor | None, gain: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.has_value = value is not None
        if value is not None:
            tokens = tokens + value
        normed, mean, rstd = torch.native_layer_norm(tokens, tokens.shape[-1:], gain, bias, eps)
        ctx.save_for_backward(tokens, mean, rstd, gain, bias)
        return tokens, normed

    @staticmethod
    def backward(ctx: Any, d_moved: Tensor | None, d_normed: Tensor) -> Any:
        check_first_derivative()
        moved, mean, rstd, gain, bias = ctx.saved_tensors
        vectors = gain, bias, [True, True, True]
        d_tokens, d_gain, d_bias = layer_norm_backward(d_normed, moved, moved.shape[-1:], mean, rstd, *vectors)
        if d_moved is not None:
            d_tokens.add_(d_moved)
        return d_tokens, d_tokens if ctx.has_value else None, d_gain, d_bias, None


class Attend(Function):
    """Attention of x (n, length, width); ``mask`` (length, length) is 0 where a position is seen, −∞ elsewhere.

    All weights of the attention are stored. For short sequences this is faster than torch's form, which recomputes
    them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, heads: int, mask: Tensor) -> Tensor:
        n, length, width = x.shape
        size = width // heads
        packed = product(x, weight, bias).view(n, length, 3, heads, size)
        parts = packed.permute(2, 0, 3, 1, 4).contiguous().view(3, n * heads, length, size)
        q, k, v = parts.unbind(0)
        weights = torch.softmax(torch.baddbmm(mask, q, k.transpose(1, 2), alpha=size**-0.5), dim=2)
        ctx.save_for_backward(x, weight, parts, weights)
        ctx.heads = heads
        mixed = torch.bmm(weights, v)
        return mixed.view(n, heads, length, size).transpose(1, 2).reshape(n, length, width)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        check_first_derivative()
        x, weight, parts, weights = ctx.saved_tensors
        n, length, width = x.shape
        heads, size = ctx.heads, width // ctx.heads
        q, k, v = parts.unbind(0)
        d_mixed = d_out.view(n, length, heads, size).transpose(1, 2).reshape(n * heads, length, size)
        d_parts = torch.empty_like(parts)
        d_q, d_k, d_v = d_parts.unbind(0)
        torch.bmm(weights.transpose(1, 2), d_mixed, out=d_v)
        d_scores = torch._softmax_backward_data(torch.bmm(d_mixed, v.transpose(1, 2)), weights, 2, x.dtype)
        d_scores.mul_(size**-0.5)
        torch.bmm(d_scores, k, out=d_q)
        torch.bmm(d_scores.transpose(1, 2), q, out=d_k)
        d_packed = d_parts.view(3, n, heads, length, size).permute(1, 3, 0, 2, 4).reshape(n, length, 3 * width)
        return *layer_gradients(d_packed, x, weight), None, None
