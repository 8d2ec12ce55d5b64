"""Normalisation with its modulation, and the layers that make the modulations, as nodes of autograd.

Gradients of modulations are written by the normalisations' kernels into one piece of memory, where the backward pass of
the layers reads them. Autograd would copy them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from twoclocks.kernels import normalisation
from twoclocks.kernels.column_sums import column_sums
from twoclocks.kernels.weight_gradient import float_product

if TYPE_CHECKING:
    from twoclocks.kernels.triton_operations import TritonOperations


class VectorGradients:
    """Gradients of vectors that are parts of one tensor, in memory of the same shape, each at its vector's place."""

    def __init__(self, whole: Tensor) -> None:
        self.whole, self.gradients = whole, torch.empty_like(whole)
        self.taken: set[int] = set()

    def place(self, vector: Tensor | None) -> Tensor | None:
        """Where the gradient of a vector is to be written; None for others, and for one that has been used before."""
        if vector is None or vector.untyped_storage().data_ptr() != self.whole.untyped_storage().data_ptr():
            return None
        place = self.gradients.as_strided(vector.shape, vector.stride(), vector.storage_offset())
        if place.data_ptr() in self.taken:
            return None
        self.taken.add(place.data_ptr())
        return place

    def collect(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """All gradients; those that are elsewhere are copied to their places."""
        for gradient, place in zip(gradients, self.gradients.chunk(len(gradients), dim=1), strict=True):
            if gradient is None:
                place.zero_()
            elif gradient.data_ptr() != place.data_ptr():
                place.copy_(gradient)
        return self.gradients


class Stacked(Function):
    """x (n, width) through several layers at once: their outputs, cut into vectors (n, width)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operations: TritonOperations, layers: tuple[nn.Linear, ...]) -> Any:
        flat, width = operations.flat, x.shape[1]
        weight = flat.stacked(flat.shadows, [layer.weight for layer in layers])
        bias = flat.stacked(flat.shadows, [layer.bias for layer in layers])
        whole = torch.addmm(bias, x, weight.T)
        ctx.save_for_backward(x)
        ctx.operations, ctx.layers = operations, layers
        ctx.vectors = operations.vectors = VectorGradients(whole) if any(ctx.needs_input_grad) else None
        return whole.split(width, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        (x,) = ctx.saved_tensors
        flat, d_out = ctx.operations.flat, ctx.vectors.collect(gradients)
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
        ctx.places = operations.gradient_places(gate, shift, scale) if norm is None else None
        return moved, normed

    @staticmethod
    def backward(ctx: Any, d_moved: Tensor | None, d_normed: Tensor) -> Any:
        moved, moments, value, gate, scale = ctx.saved_tensors
        n, length, width = moved.shape
        if ctx.norm is None:
            d_gate, d_shift, d_scale = (scale.new_empty(n, width) if place is None else place for place in ctx.places)
        else:  # sums over parts of samples will do for gain and shift, which are the same for all; not for a gate
            count = n if gate is not None else n * normalisation.part_count(n, length)
            sums = moved.new_empty(count, 3, width, dtype=torch.float32)
            d_scale, d_shift, d_gate = sums.unbind(1)
        d_gate = d_gate if gate is not None else None
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
