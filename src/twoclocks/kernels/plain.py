"""The operations of a transformer block in plain PyTorch: the definition of what the fused ones compute.

A block does not add its updates to the tokens itself: it hands them to the next normalisation, which must read the
tokens anyway. Fused, that saves a pass over memory; here it is the same sum in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Update(NamedTuple):
    """What a branch wants to add to the tokens: gate ⊙ (value + bias)."""

    value: Tensor  # (n, length, width)
    bias: Tensor | None = None  # (width,); None: it is in the value already
    gate: Tensor | None = None  # (n, width); None: one

    def applied(self, tokens: Tensor) -> Tensor:
        value = self.value if self.bias is None else self.value + self.bias
        return tokens + (value if self.gate is None else self.gate[:, None] * value)


class Modulation(NamedTuple):
    """How a noise level steers a branch: shift and scale behind its normalisation, a gate before its update."""

    shift: Tensor  # (n, width), as the others; n may be 1
    scale: Tensor
    gate: Tensor
    eps: float


class Branch(NamedTuple):
    """Normalisation, a layer, attention or GELU, and a layer whose output updates the tokens."""

    conditioning: Modulation | nn.LayerNorm
    first: nn.Linear
    last: nn.Linear
    heads: int = 0  # of attention; none: it is an MLP
    causal: bool = False


class Operations:
    """Plain PyTorch, any device, any precision; a subclass may do the same faster."""

    def join(self) -> None:
        """To be called before gradients are read."""

    def refresh(self) -> None:
        """To be called after weights were changed by anything but their own optimizer."""

    def precondition(
        self, clean: Tensor, log_sigma: Tensor, noise: Tensor, sigma_data: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a denoiser's network is shown of y = clean + σ·noise, its noise label, and what it should say (EDM).

        Input y/√(σ² + σd²), label ln σ / 4, target (σ/σd · clean − σd · noise)/√(σ² + σd²).
        """
        sigma = log_sigma.exp().reshape(-1, *[1] * (clean.dim() - 1))
        inverse = (sigma.square() + sigma_data**2).rsqrt()
        target = (sigma / sigma_data * clean - sigma_data * noise) * inverse
        return (clean + sigma * noise) * inverse, log_sigma / 4, target

    def modulations(self, condition: Tensor, layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
        """The outputs of all layers for ``condition`` (n, width), cut into vectors (n, width) in their order."""
        width = condition.shape[1]
        return tuple(part for layer in layers for part in layer(condition).split(width, dim=1))

    def modulate(
        self, tokens: Tensor, update: Update | None, shift: Tensor, scale: Tensor, eps: float
    ) -> tuple[Tensor, Tensor]:
        """Tokens with the update, and these normalised, scaled and shifted, each sample by its own vector."""
        tokens = update.applied(tokens) if update is not None else tokens
        normed = functional.layer_norm(tokens, tokens.shape[-1:], eps=eps)
        return tokens, normed * (1 + scale[:, None]) + shift[:, None]

    def normalise(self, tokens: Tensor, update: Update | None, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """Tokens with the update, and these normalised with the layer's gain and bias."""
        tokens = update.applied(tokens) if update is not None else tokens
        return tokens, norm(tokens)

    def branches(self, tokens: Tensor, branches: Sequence[Branch]) -> tuple[Tensor, Update | None]:
        """Tokens after all branches but for the last update to them, which whoever reads them next applies."""
        update = None
        for branch in branches:
            if isinstance(branch.conditioning, Modulation):
                shift, scale, gate, eps = branch.conditioning
                tokens, normed = self.modulate(tokens, update, shift, scale, eps)
            else:
                gate = None
                tokens, normed = self.normalise(tokens, update, branch.conditioning)
            if branch.heads:
                hidden = self.attend(normed, branch.first, branch.heads, branch.causal)
            else:
                hidden = self.activate(normed, branch.first)
            update = self.update(hidden, branch.last, gate)
        return tokens, update

    def attend(self, normed: Tensor, layer: nn.Linear, heads: int, causal: bool = False) -> Tensor:
        """Attention (n, length, width), its queries, keys and values made by ``layer``."""
        q, k, v = split_heads(layer(normed), heads)
        return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=causal))

    def activate(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        """GELU of the layer's output."""
        return functional.gelu(layer(normed))

    def update(self, hidden: Tensor, layer: nn.Linear, gate: Tensor | None = None) -> Update:
        """The layer's output as an update of the tokens."""
        return Update(layer(hidden), gate=gate)

    def embed(self, x: Tensor, layer: nn.Linear, positions: Tensor) -> Tensor:
        """Tokens (n, length, width) of entries (n, length, channels), each at its position (length, width)."""
        return layer(x) + positions

    def look_up(self, symbols: Tensor, table: nn.Embedding, positions: Tensor) -> Tensor:
        """Tokens (n, length, width) of symbols (n, length), each at its position (length, width)."""
        return table(symbols) + positions

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        return layer(x)

    def read_out(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        """The network's last layer."""
        return layer(normed)


class MixedOperations(Operations):
    """The large products in bfloat16, by PyTorch's autocast; what meets data or is normalised stays in float32."""

    def modulations(self, condition: Tensor, layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
        with bfloat16(condition):
            return super().modulations(condition, layers)

    def attend(self, normed: Tensor, layer: nn.Linear, heads: int, causal: bool = False) -> Tensor:
        with bfloat16(normed):
            return super().attend(normed, layer, heads, causal)

    def activate(self, normed: Tensor, layer: nn.Linear) -> Tensor:
        with bfloat16(normed):
            return super().activate(normed, layer)

    def update(self, hidden: Tensor, layer: nn.Linear, gate: Tensor | None = None) -> Update:
        with bfloat16(hidden):
            return super().update(hidden, layer, gate)

    def linear(self, x: Tensor, layer: nn.Linear) -> Tensor:
        with bfloat16(x):
            return super().linear(x, layer)


PLAIN, MIXED = Operations(), MixedOperations()


def bfloat16(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, torch.bfloat16)


def split_heads(packed: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (n, heads, length, width/heads) of a packed (n, length, 3·width)."""
    n, length, triple = packed.shape
    q, k, v = packed.view(n, length, 3, heads, triple // (3 * heads)).permute(2, 0, 3, 1, 4)
    return q, k, v


def merge_heads(mixed: Tensor) -> Tensor:
    """(n, heads, length, size) to (n, length, width)."""
    n, heads, length, size = mixed.shape
    return mixed.transpose(1, 2).reshape(n, length, heads * size)
