"""The fused operations as nodes of autograd: each calls kernels forward, and in the backward pass.

Weights enter as layers, not as tensors: their gradients are written where the optimizer reads them, by kernels that
autograd need not wait for. Each weight may be used once a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from twoclocks.kernels import (
    activation,
    attention,
    input_gradient,
    resident_product,
    tma,
)

if TYPE_CHECKING:
    from twoclocks.kernels.triton_operations import TritonOperations


class Product(Function):
    """x (…, inputs) times the layer's weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operations: TritonOperations, layer: nn.Linear) -> Tensor:
        ctx.save_for_backward(x)
        ctx.operations, ctx.layer = operations, layer
        return x @ operations.shadow(layer.weight).T

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        ctx.operations.layer_gradient(ctx.layer, d_out.flatten(0, -2), x.flatten(0, -2))
        return times_weight(d_out, ctx.operations.shadow(ctx.layer.weight)), None, None


class Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, normed: Tensor, operations: TritonOperations, layer: nn.Linear, heads: int, causal: bool
    ) -> Tensor:
        packed = with_bias(normed, operations, layer)
        ctx.save_for_backward(normed, packed)
        ctx.operations, ctx.layer, ctx.heads, ctx.causal = operations, layer, heads, causal
        return attention.forward(packed, heads, causal)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        normed, packed = ctx.saved_tensors
        operations, layer = ctx.operations, ctx.layer
        d_packed = attention.backward(packed, d_out.contiguous(), ctx.heads, ctx.causal)
        operations.layer_gradient(layer, d_packed.flatten(0, 1), normed.flatten(0, 1))
        return times_weight(d_packed, operations.shadow(layer.weight)), None, None, None, None


class Activate(Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, operations: TritonOperations, layer: nn.Linear) -> Tensor:
        ctx.save_for_backward(product)
        ctx.layer = layer
        return activation.forward(product, layer.bias)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        (product,) = ctx.saved_tensors
        return activation.backward(product, ctx.layer.bias, d_out.contiguous()), None, None


class FeedForward(Function):
    """Two layers with GELU between them, without the bias of the second."""

    @staticmethod
    def forward(
        ctx: Any, normed: Tensor, operations: TritonOperations, expand: nn.Linear, contract: nn.Linear
    ) -> Tensor:
        contraction = operations.shadow(contract.weight).T
        if not any(ctx.needs_input_grad):
            return activated(normed, operations, expand) @ contraction
        product, hidden = expanded(normed, operations, expand)
        ctx.save_for_backward(normed, product, hidden)
        ctx.operations, ctx.expand, ctx.contract = operations, expand, contract
        return hidden @ contraction

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        normed, product, hidden = ctx.saved_tensors
        operations, expand, contract = ctx.operations, ctx.expand, ctx.contract
        d_product = behind_gelu(d_out.contiguous(), operations.shadow(contract.weight), product, expand.bias)
        operations.layer_gradient(contract, d_out.flatten(0, -2), hidden.flatten(0, -2))
        operations.layer_gradient(expand, d_product.flatten(0, -2), normed.flatten(0, -2))
        return times_weight(d_product, operations.shadow(expand.weight)), None, None, None


def with_bias(x: Tensor, operations: TritonOperations, layer: nn.Linear) -> Tensor:
    """The layer's output for x (…, inputs)."""
    weight = operations.shadow(layer.weight)
    if resident_product.fits(x, weight, layer.in_features, layer.out_features):
        return resident_product.linear(x, weight, layer.bias)
    return functional.linear(x, weight, operations.shadow(layer.bias))


def expanded(x: Tensor, operations: TritonOperations, layer: nn.Linear) -> tuple[Tensor, Tensor]:
    """The layer's product (…, outputs) without its bias, and GELU of its output."""
    weight = operations.shadow(layer.weight)
    fits = resident_product.fits(x, weight, layer.in_features, layer.out_features)
    product = resident_product.linear(x, weight, None) if fits else x @ weight.T
    return product, activation.forward(product, layer.bias)


def activated(x: Tensor, operations: TritonOperations, layer: nn.Linear) -> Tensor:
    """GELU of the layer's output."""
    weight = operations.shadow(layer.weight)
    if resident_product.fits(x, weight, layer.in_features, layer.out_features):
        return resident_product.activate(x, weight, layer.bias)
    return activation.forward(x @ weight.T, layer.bias)


def times_weight(d_out: Tensor, weight: Tensor) -> Tensor:
    """d_out (…, outputs) · weight (outputs, inputs)."""
    if min(weight.shape) <= input_gradient.WIDEST and tma.fits(d_out, weight):
        return input_gradient.input_gradient(d_out, weight)
    return d_out @ weight


def behind_gelu(d_out: Tensor, weight: Tensor, product: Tensor, bias: Tensor) -> Tensor:
    """(d_out · weight) ⊙ GELU′(product + bias)."""
    if resident_product.fits(d_out, weight, *weight.shape):
        return resident_product.behind_gelu(d_out, weight, product, bias)
    if tma.fits(d_out, weight):
        return input_gradient.input_gradient(d_out, weight, product, bias)
    return activation.backward(product, bias, d_out @ weight)
