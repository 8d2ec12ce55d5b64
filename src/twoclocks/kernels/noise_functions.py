"""The fused noise embedding as a node of autograd.

The label has no gradient. Those of the weights are written where the optimizer reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.autograd import Function

from twoclocks.kernels import noise_embedding
from twoclocks.models.base import distinct_labels
from twoclocks.models.dit import NoiseEmbedding

if TYPE_CHECKING:
    from twoclocks.kernels.triton_operations import TritonOperations


class NoiseCondition(Function):
    """silu of the embedding; a weight comes first so that the result depends on something trained."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, label: Tensor, operations: TritonOperations, embedding: NoiseEmbedding
    ) -> Tensor:
        label = distinct_labels(label).contiguous()
        layers = linear_layers(embedding)
        hidden_1, hidden_2, condition = noise_embedding.forward(label, embedding.omega, *layers, operations.dtype)
        ctx.save_for_backward(label, hidden_1, hidden_2)
        ctx.operations, ctx.embedding = operations, embedding
        return condition

    @staticmethod
    def backward(ctx: Any, d_condition: Tensor) -> Any:
        label, hidden_1, hidden_2 = ctx.saved_tensors
        d_condition = d_condition.contiguous()
        first, second = linear_layers(ctx.embedding)
        slot = ctx.operations.flat.slot
        gradients_1, gradients_2 = ((slot(layer.weight), slot(layer.bias)) for layer in (first, second))
        read = d_condition, hidden_1, hidden_2
        # Nothing goes to a side stream: the backward pass ends here, and those have long queues.
        d_hidden_1 = noise_embedding.hidden_gradient(*read, second.weight)
        noise_embedding.first_gradient(d_hidden_1, label, ctx.embedding.omega, *gradients_1)
        noise_embedding.second_gradient(*read, *gradients_2)
        return None, None, None, None


def linear_layers(embedding: NoiseEmbedding) -> tuple[nn.Linear, nn.Linear]:
    first, _, second = embedding.layers
    assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)
    return first, second
