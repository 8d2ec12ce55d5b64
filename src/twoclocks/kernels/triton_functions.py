"""The fused operations as nodes of autograd: each calls kernels forward, and in the backward pass.

Weights enter as layers, not as tensors: their gradients are written where the optimizer reads them, by kernels that
autograd need not wait for. Each weight may be used once a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from twoclocks.kernels import activation, attention, input_gradient, normalisation, skinny, tma, weight_gradient
from twoclocks.kernels.column_sums import column_sums

if TYPE_CHECKING:
    from twoclocks.kernels.triton_operations import TritonOperations


def put_gradient(weight: Tensor, gradient: Tensor) -> None:
    assert weight.grad is None, "a weight was used twice, or its old gradient was not set to None"
    weight.grad = gradient


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


class Stacked(Function):
    """x (n, width) through several layers at once: their outputs side by side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operations: TritonOperations, layers: tuple[nn.Linear, ...]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.operations, ctx.layers = operations, layers
        flat = operations.flat
        weight = flat.stacked(flat.shadows, [layer.weight for layer in layers])
        bias = flat.stacked(flat.shadows, [layer.bias for layer in layers])
        return torch.addmm(bias, x, weight.T)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        flat = ctx.operations.flat
        weights, biases = [layer.weight for layer in ctx.layers], [layer.bias for layer in ctx.layers]

        for parameter in (*weights, *biases):
            flat.slot(parameter)

        def work() -> None:
            float_product(d_out.T, x, out=flat.stacked(flat.gradients, weights))
            column_sums(d_out, out=flat.stacked(flat.gradients, biases))
            flat.update_early(weights)

        d_x = d_out @ flat.stacked(flat.shadows, weights)
        ctx.operations.on_side_stream(work, d_out, x)  # which waits until the shadows have been read
        return d_x, None, None


class Normalise(Function):
    """Update, normalisation, modulation; with a LayerNorm its vectors are the shift and the scale of all samples."""

    @staticmethod
    def forward(
        ctx: Any,
        operations: TritonOperations,
        norm: nn.LayerNorm | None,
        eps: float,
        tokens: Tensor,
        value: Tensor | None,
        bias: Tensor | None,
        gate: Tensor | None,
        shift: Tensor,
        scale: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        moved, normed, moments = normalisation.forward(tokens, value, bias, gate, shift, scale, eps, operations.dtype)
        ctx.save_for_backward(moved, moments, value, gate, scale)
        ctx.operations, ctx.norm, ctx.bias = operations, norm, bias
        return moved, normed

    @staticmethod
    def backward(ctx: Any, d_moved: Tensor | None, d_normed: Tensor) -> Any:
        moved, moments, value, gate, scale = ctx.saved_tensors
        n, length, width = moved.shape
        if ctx.norm is None:
            sums = scale.new_empty(n, 3, width)
        else:  # sums over parts of samples will do for gain and shift, which are the same for all; not for a gate
            count = n if gate is not None else n * normalisation.part_count(n, length)
            sums = moved.new_empty(count, 3, width, dtype=torch.float32)
        d_scale, d_shift, d_gate = sums.unbind(1) if gate is not None else (*sums[:, :2].unbind(1), None)
        d_tokens, d_value = normalisation.backward(
            moved,
            moments,
            value,
            ctx.bias,
            gate,
            scale,
            None if d_moved is None else d_moved.contiguous(),
            d_normed.contiguous(),
            (d_gate, d_shift, d_scale),
        )
        if ctx.norm is None:
            return None, None, None, d_tokens, d_value, None, d_gate, d_shift, d_scale
        ctx.operations.norm_gradient(ctx.norm, sums[:, :2].flatten(1))
        d_gate = None if d_gate is None else d_gate.to(gate.dtype)
        return None, None, None, d_tokens, d_value, None, d_gate, None, None


class Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, normed: Tensor, operations: TritonOperations, layer: nn.Linear, heads: int, causal: bool
    ) -> Tensor:
        packed = operations.with_bias(normed, layer)
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
        product = normed @ operations.shadow(expand.weight).T
        hidden = activation.forward(product, expand.bias)
        ctx.save_for_backward(normed, product, hidden)
        ctx.operations, ctx.expand, ctx.contract = operations, expand, contract
        return hidden @ operations.shadow(contract.weight).T

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        normed, product, hidden = ctx.saved_tensors
        operations, expand, contract = ctx.operations, ctx.expand, ctx.contract
        d_product = behind_gelu(d_out.contiguous(), operations.shadow(contract.weight), product, expand.bias)
        operations.layer_gradient(contract, d_out.flatten(0, -2), hidden.flatten(0, -2))
        operations.layer_gradient(expand, d_product.flatten(0, -2), normed.flatten(0, -2))
        return times_weight(d_product, operations.shadow(expand.weight)), None, None, None


class Embed(Function):
    """The weight comes first so that the result depends on something trained."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, x: Tensor, operations: TritonOperations, layer: nn.Linear, positions: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.operations, ctx.layer = operations, layer
        tokens = skinny.expand(x.flatten(0, 1), layer.weight.T, layer.bias, positions, operations.tokens)
        return tokens.view(*x.shape[:2], -1)

    @staticmethod
    def backward(ctx: Any, d_tokens: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        layer, wide = ctx.layer, d_tokens.contiguous().flatten(0, 1)

        def work() -> None:
            total = skinny.outer(x.flatten(0, 1), wide, layer.in_features)
            put_gradient(layer.weight, total[:-1].T.contiguous())
            put_gradient(layer.bias, total[-1])

        ctx.operations.on_side_stream(work, x, wide)
        d_x = skinny.reduce(wide, layer.weight.T.contiguous(), None).view_as(x) if ctx.needs_input_grad[1] else None
        return None, d_x, None, None, None


class LookUp(Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, positions: Tensor, symbols: Tensor, operations: TritonOperations, table: nn.Embedding
    ) -> Tensor:
        ctx.save_for_backward(symbols)
        ctx.operations, ctx.table = operations, table
        return skinny.expand(symbols.flatten(), weight, None, positions, operations.tokens).view(*symbols.shape, -1)

    @staticmethod
    def backward(ctx: Any, d_tokens: Tensor) -> Any:
        (symbols,) = ctx.saved_tensors
        table, d_tokens = ctx.table, d_tokens.contiguous()

        def work() -> None:
            put_gradient(
                table.weight, skinny.outer(symbols.flatten(), d_tokens.flatten(0, 1), table.num_embeddings)[:-1]
            )

        ctx.operations.on_side_stream(work, symbols, d_tokens)
        return None, column_sums(d_tokens.flatten(1)).view(d_tokens.shape[1:]), None, None, None


class ReadOut(Function):
    @staticmethod
    def forward(ctx: Any, normed: Tensor, operations: TritonOperations, layer: nn.Linear) -> Tensor:
        ctx.save_for_backward(normed)
        ctx.operations, ctx.layer = operations, layer
        return skinny.reduce(normed.flatten(0, -2), layer.weight, layer.bias).view(*normed.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        (normed,) = ctx.saved_tensors
        layer, narrow = ctx.layer, d_out.flatten(0, -2).contiguous()

        def work() -> None:
            put_gradient(layer.weight, skinny.outer(narrow, normed.flatten(0, -2), layer.out_features)[:-1])
            if layer.bias is not None:
                put_gradient(layer.bias, narrow.sum(dim=0))

        ctx.operations.on_side_stream(work, narrow, normed)
        return skinny.expand(narrow, layer.weight, None, None, normed.dtype).view_as(normed), None, None


def times_weight(d_out: Tensor, weight: Tensor) -> Tensor:
    """d_out (…, outputs) · weight (outputs, inputs)."""
    if min(weight.shape) <= input_gradient.WIDEST and tma.fits(d_out, weight):
        return input_gradient.input_gradient(d_out, weight)
    return d_out @ weight


def behind_gelu(d_out: Tensor, weight: Tensor, product: Tensor, bias: Tensor) -> Tensor:
    """(d_out · weight) ⊙ GELU′(product + bias)."""
    if tma.fits(d_out, weight):
        return input_gradient.input_gradient(d_out, weight, product, bias)
    return activation.backward(product, bias, d_out @ weight)


def layer_gradient(d_out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """weight = d_outᵀ · x and bias = the sum of d_out over rows, in float32."""
    if tma.fits(d_out, x):
        weight_gradient.weight_gradient(d_out, x, weight, bias)
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
