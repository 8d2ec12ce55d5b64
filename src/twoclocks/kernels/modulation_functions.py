"""Normalisation with its modulation, and the layers that make the modulations, as nodes of autograd.

Gradients of modulations are written by the normalisations' kernels into one piece of memory, where the backward pass of
the layers reads them. Autograd would copy them together.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from twoclocks.kernels import normalisation

if TYPE_CHECKING:
    from twoclocks.kernels.triton_operations import TritonOperations


class VectorGradients:
    """Gradients of vectors that are parts of one tensor, in memory of the same shape, each at its vector's place.

    ``counts``: how many vectors each layer makes, in their order. A layer's gradient is begun by ``begin`` when those
    of all its vectors are there.
    """

    def __init__(self, whole: Tensor, counts: Sequence[int], begin: Callable[[int, Tensor], None]) -> None:
        self.whole, self.gradients, self.begin = whole, torch.empty_like(whole), begin
        self.width = whole.shape[1] // sum(counts)
        self.ends = list(itertools.accumulate(counts))  # of each layer's vectors
        self.counts, self.left = counts, list(counts)  # left: vectors whose gradients are to come in a backward pass
        self.shared: set[int] = set()  # layers of which a vector is used twice: autograd makes the sum, at the end
        self.taken: set[int] = set()

    def place(self, vector: Tensor | None, n: int) -> Tensor | None:
        """Where the gradient of a vector is to be written.

        None for others, for one that has been used before, and for one that all ``n`` samples share.
        """
        if vector is None or len(vector) != n or not self.has(vector):
            return None
        place = self.gradients.as_strided(vector.shape, vector.stride(), vector.storage_offset())
        if place.data_ptr() in self.taken:
            self.shared.add(self.layer(place))
            return None
        self.taken.add(place.data_ptr())
        return place

    def has(self, vector: Tensor) -> bool:
        return vector.untyped_storage().data_ptr() == self.whole.untyped_storage().data_ptr()

    def layer(self, place: Tensor) -> int:
        return bisect_right(self.ends, place.storage_offset() // self.width)

    def written(self, places: Sequence[Tensor | None]) -> None:
        """Note that gradients are there, and begin those of layers that have all."""
        for layer in (self.layer(place) for place in places if place is not None):
            self.left[layer] -= 1
            if self.has_begun(layer):
                self.begin(layer, self.of_layer(layer))

    def has_begun(self, layer: int) -> bool:
        return self.left[layer] == 0 and layer not in self.shared

    def of_layer(self, layer: int) -> Tensor:
        """The gradients of a layer's vectors, side by side."""
        start = self.ends[layer - 1] if layer else 0
        return self.gradients[:, start * self.width : self.ends[layer] * self.width]

    def collect(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """All gradients, from autograd; those that are elsewhere are copied to their places."""
        for number, (gradient, place) in enumerate(
            zip(gradients, self.gradients.split(self.width, dim=1), strict=True)
        ):
            if gradient is not None and gradient.data_ptr() == place.data_ptr():
                continue
            if self.has_begun(bisect_right(self.ends, number)):
                raise ValueError("a modulation is used by other operations, too; use kernels: plain for this model")
            place.zero_() if gradient is None else place.copy_(gradient)
        for layer in range(len(self.ends)):
            if not self.has_begun(layer):
                self.begin(layer, self.of_layer(layer))
        self.left = list(self.counts)  # for another backward pass through the same graph
        return self.gradients


class Stacked(Function):
    """x (n, width) through several layers at once: their outputs, cut into vectors (n, width)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operations: TritonOperations, layers: tuple[nn.Linear, ...]) -> Any:
        flat, width = operations.flat, x.shape[1]
        weights = [layer.weight for layer in layers]
        bias = flat.stacked(flat.shadows, [layer.bias for layer in layers])
        whole = torch.addmm(bias, x, flat.stacked(flat.shadows, weights).T)

        def begin(layer: int, d_out: Tensor) -> None:
            operations.modulation_gradient(layers[layer], d_out, x)

        ctx.operations, ctx.weights, ctx.vectors = operations, weights, None
        if any(ctx.needs_input_grad):
            ctx.vectors = VectorGradients(whole, [layer.out_features // width for layer in layers], begin)
        operations.vectors = ctx.vectors
        return whole.split(width, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        flat = ctx.operations.flat
        d_x = ctx.vectors.collect(gradients) @ flat.stacked(flat.shadows, ctx.weights)
        ctx.operations.refresh_modulations(ctx.weights)
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
        ctx.vectors = operations.vectors if norm is None else None
        ctx.places = [
            None if ctx.vectors is None else ctx.vectors.place(vector, len(tokens)) for vector in (gate, shift, scale)
        ]
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
            if ctx.vectors is not None:
                ctx.vectors.written(ctx.places)
            return None, None, None, d_tokens, d_value, None, d_gate, d_shift, d_scale
        ctx.operations.norm_gradient(ctx.norm, sums[:, :2].flatten(1))
        d_gate = None if d_gate is None else d_gate.to(gate.dtype)
        return None, None, None, d_tokens, d_value, None, d_gate, None, None
