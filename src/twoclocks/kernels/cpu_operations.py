"""A transformer's operations for the CPU in float32: larger ones, with fewer passes over memory between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.kernels import cpu_functions
from twoclocks.kernels.cpu_functions import product
from twoclocks.kernels.operations import Update
from twoclocks.kernels.registry import fusions
from twoclocks.models.attention import merge_heads, split_heads
from twoclocks.models.base import Network
from twoclocks.models.dit import NoiseEmbedding

LONGEST = 128  # tokens, to which all weights of the attention are stored


class CpuForm:
    """A network's fused forward pass with the operations of the CPU, which keep nothing of their own.

    Where somebody changed the network, such as by hooks, by other layers or by ``double()``, the textbook's is taken.
    """

    def __init__(self, network: Network) -> None:
        self.forward, self.operations = fusions()[type(network)].forward, CpuOperations()
        self.kinds = [type(module) for module in network.modules()]

    def __call__(self, network: Network, *inputs: Any, **named: Any) -> Tensor:
        if torch.is_autocast_enabled("cpu") or self.was_changed(network):
            out: Tensor = network.forward(*inputs, **named)
            return out
        return self.forward(network, self.operations, *inputs, **named)

    def was_changed(self, network: Network) -> bool:
        """Whether the network has other layers than when the form was made, hooks, or another type of numbers."""
        modules = list(network.modules())
        hooked = any(one._forward_hooks or one._forward_pre_hooks or one._backward_hooks for one in modules)
        return hooked or [type(one) for one in modules] != self.kinds or dtype_of(network) != torch.float32

    def finish_gradients(self) -> None:
        """Autograd has completed them."""

    def weights_changed(self) -> None:
        """Nothing is derived from the weights."""


def dtype_of(network: nn.Module) -> torch.dtype:
    return next(network.parameters()).dtype


class CpuOperations:
    """``Operations`` in float32."""

    def noise_condition(self, label: Tensor, embedding: NoiseEmbedding) -> Tensor:
        return functional.silu(embedding(label))

    def modulations(self, condition: Tensor, layers: Sequence[nn.Linear]) -> Sequence[Tensor]:
        weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
        return functional.linear(condition, weight, bias).split(condition.shape[1], dim=1)

    def modulate(
        self, tokens: Tensor, update: Update | None, shift: Tensor, scale: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        value, gate = (None, None) if update is None else (update.value, update.gate)
        return cpu_functions.Modulate.apply(tokens, value, gate, shift, scale, eps)

    def normalise(self, tokens: Tensor, update: Update | None, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        value = None if update is None else update.value
        return cpu_functions.Normalise.apply(tokens, value, norm.weight, norm.bias, norm.eps)

    def attend(self, normed: Tensor, layer: nn.Linear, heads: int, causal: bool = False) -> Tensor:
        length = normed.shape[1]
        if length <= LONGEST:
            mask = hidden_positions(length, causal)
            return cpu_functions.Attend.apply(normed, layer.weight, layer.bias, heads, mask)
        q, k, v = split_heads(self.linear(normed, layer), heads)
        return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=causal))

    def activate(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        if not torch.is_grad_enabled():
            return product(normed, layer.weight, layer.bias, "gelu")
        return cpu_functions.Activate.apply(normed, layer.weight, layer.bias)

    def feed_forward(
        self, normed: Tensor, expand: nn.Linear, contract: nn.Linear, gate: Tensor | None = None
    ) -> Update:
        return self.update(self.activate(normed, expand), contract, gate)

    def update(self, hidden: Tensor, layer: nn.Linear, gate: Tensor | None = None) -> Update:
        return Update(self.linear(hidden, layer), gate=gate)

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return cpu_functions.Linear.apply(x, layer.weight, layer.bias)

    def embed(self, x: Tensor, layer: nn.Linear, positions: Tensor) -> Tensor:
        return self.linear(x, layer) + positions

    def look_up(self, symbols: Tensor, table: nn.Embedding, positions: Tensor) -> Tensor:
        embedded: Tensor = table(symbols) + positions
        return embedded

    def read_out(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        return self.linear(normed, layer)


@cache
def hidden_positions(length: int, causal: bool) -> Tensor:
    """−∞ (length, length) where a position must not be seen, 0 elsewhere."""
    nothing = torch.zeros(length, length, dtype=torch.float32, device="cpu")
    return nothing.fill_(-math.inf).triu(1) if causal else nothing
