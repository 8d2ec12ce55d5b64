"""The U-Net over strings with normalised layers and concatenated skips, as P2's authors build it.

P2 does not print this layout; their public code for an earlier paper has it. All weights are drawn from N(0, 1) and
have one learning rate. The forward pass multiplies a layer's sums by 1/√inputs, and the readout's by 1/inputs. There
are no biases, and the normalisation has no weights.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.models.base import Network, in_float32


class Scaled(nn.Module):
    """A matrix product with N(0, 1) weights (outputs, inputs), multiplied by ``scale``."""

    def __init__(self, inputs: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(outputs, inputs)), scale

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight) * self.scale


def layer(inputs: int, outputs: int) -> Scaled:
    """A layer whose outputs have variance 1 where its inputs have."""
    return Scaled(inputs, outputs, 1 / math.sqrt(inputs))


def normalised(x: Tensor) -> Tensor:
    """GELU of each position's features (…, width) with mean 0 and variance 1."""
    return functional.gelu(functional.layer_norm(x, x.shape[-1:]))


class NormalisedUNet1d(Network):
    """Logits (n, length, symbols) of the clean tokens, from noisy ones (n, length), −1 a mask, and their noise (n,).

    The noise level is told by the size of the input alone: a token y at level α is read as its distribution
    α·[x = y] + (1 − α)/symbols, standardised with the mean and variance of a token without noise.
    """

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __init__(self, width: int, branching: int, depth: int, symbols: int, told_noise: bool) -> None:
        super().__init__()
        self.branching, self.symbols, self.told_noise = branching, symbols, told_noise
        self.embedding = layer(symbols, width)
        self.down = nn.ModuleList(layer(branching * width, width) for _ in range(depth))
        inputs = [width, *[2 * width] * (depth - 1)]  # beside the features lies a skip, but at the top of the tree
        self.up = nn.ModuleList(layer(count, branching * width) for count in inputs)
        self.head = Scaled(2 * width, symbols, 1 / (2 * width))

    def standardised(self, tokens: Tensor, noise: Tensor) -> Tensor:
        """The input (n, length, symbols): zero where a token is a mask, and everywhere at α = 0."""
        share = 1 / self.symbols
        places = torch.arange(self.symbols, device=tokens.device)
        found = (tokens[..., None] == places).to(torch.float32) - share
        found = torch.where((tokens < 0)[..., None], 0.0, found) / math.sqrt(share * (1 - share))
        return found * (1 - noise)[:, None, None] if self.told_noise else found

    def forward(self, tokens: Tensor, noise: Tensor) -> Tensor:
        group, skips = self.branching, []
        hidden = in_float32(self.embedding, self.standardised(tokens, noise))  # (n, length, width)
        for down in self.down:
            skips.append(hidden)
            n, length, width = hidden.shape
            hidden = normalised(down(hidden.reshape(n, length // group, group * width)))
        for up, skip in zip(self.up, reversed(skips), strict=True):
            hidden = torch.cat([normalised(up(hidden).reshape(skip.shape)), skip.to(hidden.dtype)], dim=-1)
        return in_float32(self.head, hidden)
