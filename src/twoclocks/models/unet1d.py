"""Convolutional U-Net over strings whose filters mirror a tree (P2 B.3), in the maximal-update parametrization (μP).

Filter and stride are both s, so a convolution is a matrix product over groups of s neighbours. With the scales below,
features and their changes in a step are of order one at every width (Yang & Hu 2020; Yang et al. 2022, Table 3): the
best learning rate does not depend on the width. The layout of P2's authors is in ``unet1d_normalised``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.models.base import MODELS, MOST_WIDTH, ModelSettings, Network, in_float32
from twoclocks.models.noise_features import FEATURES, noise_features
from twoclocks.models.unet1d_normalised import NormalisedUNet1d


@MODELS.register("unet1d")
@dataclass(frozen=True, kw_only=True)
class UNet1dSettings(ModelSettings):
    """Convolutional U-Net for strings, filter = stride = branching, GELU, skip connections."""

    task: ClassVar[str] = "restore tokens"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((8,), 16)

    width: int = setting(512, "channels at every level", at_least=1, at_most=MOST_WIDTH)
    branching: int = setting(2, "filter and stride s: how many neighbours become one", at_least=2, at_most=1 << 16)
    depth: int | None = setting(None, "levels of the encoder; until one position is left", at_least=1, at_most=64)
    told_noise: bool = setting(True, "whether the network reads the noise level beside the tokens")
    layout: Literal["mup", "normalised"] = setting(
        "mup",
        "mup: skips are added, each layer has its μP rate; normalised, as of P2's authors: LayerNorm, skips are "
        "concatenated, no biases, weights of N(0, 1) and one rate",
        added=True,
    )

    def levels(self, length: int) -> int:
        """Levels for a string of some length, 0 where it cannot be divided."""
        if self.depth is not None:
            return self.depth if length % self.branching**self.depth == 0 else 0
        depth = round(math.log(length, self.branching))
        return depth if self.branching**depth == length else 0

    def check_shape(self, shape: tuple[int, ...]) -> None:
        length = math.prod(shape)
        if self.depth is not None and length % self.branching**self.depth:
            parts = f"{self.branching}^{self.depth} = {self.branching**self.depth}"
            raise SettingError(
                "depth", self.depth, f"strings of {length} symbols are no multiple of {parts}; use fewer"
            )
        if not self.levels(length):
            fix = (
                f"strings of {length} symbols are no power of it; use one that is, or set depth so that it divides them"
            )
            raise SettingError("branching", self.branching, fix)

    def activations(self, shape: tuple[int, ...], symbols: int) -> int:
        """The one-hot input, and per position the embedding and what comes back up; levels below add a fraction."""
        return math.prod(shape) * (symbols + 3 * self.width)

    @property
    def title(self) -> str:
        return f"U-Net {self.width}"

    def build(self, shape: tuple[int, ...], symbols: int) -> Network:
        self.check_shape(shape)
        length = math.prod(shape)
        if self.layout == "normalised":
            return NormalisedUNet1d(self.width, self.branching, self.levels(length), symbols, self.told_noise)
        return UNet1d(self, length, symbols)


class UNet1d(Network):
    """Logits (n, length, symbols) of the clean tokens, from noisy ones (n, length), −1 a mask, and their noise (n,)."""

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __init__(self, settings: UNet1dSettings, length: int, symbols: int) -> None:
        super().__init__()
        width, self.branching = settings.width, settings.branching
        depth = settings.levels(length)
        self.inputs = symbols + 1  # the last one is the mask
        self.embedding = nn.Linear(self.inputs, width)
        self.noise = nn.Linear(FEATURES, width, bias=False) if settings.told_noise else None
        self.down = nn.ModuleList(nn.Linear(self.branching * width, width) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(width, self.branching * width) for _ in range(depth))
        self.head = nn.Linear(width, symbols)
        self._initialise()

    def _initialise(self) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=self.scale(name, module))
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def scale(self, name: str, layer: nn.Linear) -> float:
        """Standard deviation of the initial weights."""
        if name == "embedding":  # of all inputs one is 1, the others 0
            return 1.0
        if name == "head":
            return 1 / layer.in_features
        return math.sqrt((1 if name == "noise" else 2) / layer.in_features)  # GELU halves the variance

    def learning_rates(self, optimizer: str) -> dict[str, float]:
        rates = {}
        for name, parameter in self.named_parameters():
            layer = self.get_submodule(name.rpartition(".")[0])
            assert isinstance(layer, nn.Linear)
            inner, matrix = name.startswith(("down", "up")), parameter.dim() > 1
            if name.startswith("head"):
                rates[name] = 1 / layer.in_features if matrix else 1.0
            elif inner and matrix:
                rates[name] = 1.0 if optimizer == "sgd" else 1 / layer.in_features
            else:  # what data or a constant one meets first
                rates[name] = float(layer.out_features) if optimizer == "sgd" else 1.0
        return rates

    def forward(self, tokens: Tensor, noise: Tensor) -> Tensor:
        group = self.branching
        places = torch.arange(self.inputs, device=tokens.device)
        one_hot = ((tokens % self.inputs)[..., None] == places).to(self.embedding.weight.dtype)
        hidden = self.embedding(one_hot)  # (n, length, width)
        if self.noise is not None:
            hidden = hidden + in_float32(self.noise, noise_features(noise))[:, None]
        skips = []
        for layer in self.down:
            skips.append(hidden)
            n, length, width = hidden.shape
            hidden = functional.gelu(layer(hidden.reshape(n, length // group, group * width)))
        for layer, skip in zip(self.up, reversed(skips), strict=True):
            hidden = functional.gelu(layer(hidden)).reshape(skip.shape) + skip
        return in_float32(self.head, hidden)
