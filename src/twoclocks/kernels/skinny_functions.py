"""A network's first and last layer as nodes of autograd: products with few columns, in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.autograd import Function

from twoclocks.kernels import skinny
from twoclocks.kernels.column_sums import column_sums

if TYPE_CHECKING:
    from twoclocks.kernels.triton_operations import TritonOperations


def put_gradient(weight: Tensor, gradient: Tensor) -> None:
    assert weight.grad is None, "a weight was used twice, or its old gradient was not set to None"
    weight.grad = gradient


class Embed(Function):
    """The weight comes first so that the result depends on something trained."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, x: Tensor, operations: TritonOperations, layer: nn.Linear, positions: Tensor
    ) -> Tensor:
        x = x.contiguous()  # patches of one image lie apart, and are a view even when flattened
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
        symbols = symbols.contiguous()
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
