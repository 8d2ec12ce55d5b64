"""Diffusion transformer (Peebles & Xie 2023) as P1 uses it: patch size 1, no classes, no learned variance.

Every entry of the image is a token. The noise level enters through Fourier features and a two-layer MLP, which
modulate each block (adaLN-zero: a fresh network is the identity on tokens and outputs zero).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.kernels import PLAIN, Branch, Modulation, Operations
from twoclocks.models.base import MODELS, TransformerSettings, distinct_labels

EPSILON = 1e-6  # of the normalisations


@MODELS.register("dit")
@dataclass(frozen=True, kw_only=True)
class DiTSettings(TransformerSettings):
    """2D diffusion transformer with adaLN-zero blocks, one token per image entry."""

    sizes: ClassVar[dict[str, tuple[int, int, int]]] = {
        "nano": (192, 3, 3),
        "mini": (384, 6, 6),
        "S": (384, 12, 6),
        "B": (768, 12, 12),
    }
    written: ClassVar[str] = "DiT"
    task: ClassVar[str] = "denoise images"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((1, 6, 6), 2)
    frequencies: int = setting(256, "Fourier features of the noise level", at_least=2)

    def check(self) -> None:
        super().check()
        if self.dimensions[0] % 4:
            raise SettingError("width", self.dimensions[0], "use a multiple of 4 (2D sine-cosine positions)")
        if self.frequencies % 2:
            raise SettingError("frequencies", self.frequencies, "use an even number (sine and cosine)")

    def build(self, shape: tuple[int, ...], symbols: int) -> DiT:
        return DiT(self, shape)


class DiT(nn.Module):
    """F(x, c): (n, channels, height, width) and a noise label (n,) to (n, channels, height, width)."""

    positions: Tensor
    operations: Operations = PLAIN
    fusible = True

    def __init__(self, settings: DiTSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        width, depth, heads = settings.dimensions
        channels, rows, columns = shape
        self.embed = nn.Linear(channels, width)
        self.register_buffer("positions", sine_cosine_positions(width, rows, columns), persistent=False)
        self.noise_embedding = NoiseEmbedding(settings.frequencies, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.final_modulation = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, channels)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        for layer in self.noise_embedding.layers:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.02)
        # adaLN-zero: gates, shifts, scales and the output start at zero.
        zeroed = [module for name, module in self.named_modules() if name.endswith(("modulation", "head"))]
        for layer in zeroed:
            assert isinstance(layer, nn.Linear)
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    @property
    def stacks(self) -> list[list[nn.Linear]]:
        """Layers that read the same input: fused, they are one matrix."""
        return [[*(block.modulation for block in self.blocks), self.final_modulation]]  # type: ignore[list-item]

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        n, channels, rows, columns = x.shape
        do = self.operations
        tokens = do.embed(x.flatten(2).transpose(1, 2), self.embed, self.positions)  # (n, rows·columns, width)
        condition = functional.silu(self.noise_embedding(distinct_labels(noise_label)))  # (n or 1, width)
        vectors = iter(do.modulations(condition, self.stacks[0]))
        branches = [branch for block in self.blocks for branch in block.branches(vectors)]  # type: ignore[operator]
        tokens, update = do.branches(tokens, branches)
        _, normed = do.modulate(tokens, update, next(vectors), next(vectors), EPSILON)
        return do.read_out(normed, self.head).transpose(1, 2).reshape(n, channels, rows, columns)


class Block(nn.Module):
    """Attention and MLP, each shifted, scaled and gated by the noise level."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulation = nn.Linear(width, 6 * width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def branches(self, vectors: Iterator[Tensor]) -> tuple[Branch, Branch]:
        """With the next six of the modulations."""
        attention, mlp = (Modulation(next(vectors), next(vectors), next(vectors), EPSILON) for _ in range(2))
        return (
            Branch(attention, self.query_key_value, self.project, self.heads),
            Branch(mlp, self.expand, self.contract),
        )


class NoiseEmbedding(nn.Module):
    """Fourier features cos(ωc), sin(ωc) with ω from 1 down to 1e-4, then Linear, SiLU, Linear."""

    omega: Tensor

    def __init__(self, frequencies: int, width: int) -> None:
        super().__init__()
        half = frequencies // 2
        self.register_buffer("omega", torch.exp(-math.log(10_000) * torch.arange(half) / half), persistent=False)
        self.layers = nn.Sequential(nn.Linear(frequencies, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, label: Tensor) -> Tensor:
        phase = label[:, None].float() * self.omega
        features = torch.cat([phase.cos(), phase.sin()], dim=-1)
        return self.layers(features.to(label.dtype))  # type: ignore[no-any-return]


def sine_cosine_positions(width: int, rows: int, columns: int) -> Tensor:
    """Fixed 2D positions (rows·columns, width): half of the features code the column, half the row."""
    omega = 10_000.0 ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    phases = [axis.flatten()[:, None].double() * omega for axis in (column, row)]
    return torch.cat([part for phase in phases for part in (phase.sin(), phase.cos())], dim=1).float()
