"""Diffusion transformer (Peebles & Xie 2023) as P1 uses it: no classes, no learned variance, patch size 1 by default.

Every square of ``patch`` × ``patch`` entries of the image is a token, so a patched DiT is the plain one on an image
whose patches were moved into channels. The noise level enters through Fourier features and a two-layer MLP, which
modulate each block (adaLN-zero: a fresh network is the identity on tokens and outputs zero).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.models.attention import self_attention
from twoclocks.models.base import MODELS, Network, TransformerSettings, distinct_labels, in_float32
from twoclocks.models.dropout import RowDropout, row_keys
from twoclocks.models.registers import Registers

EPSILON = 1e-6  # of the normalisations
MOST_PATCH = 1 << 10  # entries of a token grow with its square


@MODELS.register("dit")
@dataclass(frozen=True, kw_only=True)
class DiTSettings(TransformerSettings):
    """2D diffusion transformer with adaLN-zero blocks, one token per image entry or patch."""

    sizes: ClassVar[dict[str, tuple[int, int, int]]] = {
        "nano": (192, 3, 3),
        "mini": (384, 6, 6),
        "S": (384, 12, 6),
        "B": (768, 12, 12),
    }
    written: ClassVar[str] = "DiT"
    task: ClassVar[str] = "denoise images"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((1, 6, 6), 2)
    frequencies: int = setting(256, "Fourier features of the noise level", at_least=2, at_most=1 << 16)
    patch: int = setting(
        1, "height and width of the square of pixels that is one token", at_least=1, at_most=MOST_PATCH, added=True
    )

    def check(self) -> None:
        super().check()
        if self.dimensions[0] % 4:
            raise SettingError("width", self.dimensions[0], "use a multiple of 4 (2D sine-cosine positions)")
        if self.frequencies % 2:
            raise SettingError("frequencies", self.frequencies, "use an even number (sine and cosine)")

    def check_shape(self, shape: tuple[int, ...]) -> None:
        rows, columns = shape[-2:]
        if rows % self.patch or columns % self.patch:
            common = math.gcd(rows, columns)
            *others, last = (str(size) for size in range(1, common + 1) if common % size == 0)
            use = f"{', '.join(others)} or {last}" if others else last
            fix = f"images of {rows}×{columns} cannot be cut into such squares; use {use}"
            raise SettingError("patch", self.patch, fix)

    def tokens(self, shape: tuple[int, ...]) -> int:
        return super().tokens(shape) // self.patch**2

    @property
    def title(self) -> str:
        return super().title if self.patch == 1 else f"{super().title}, patches {self.patch}×{self.patch}"

    def build(self, shape: tuple[int, ...], symbols: int) -> DiT:
        self.check_shape(shape)
        return DiT(self, shape)


class DiT(Network):
    """F(x, c): (n, channels, height, width) and a noise label (n,) to (n, channels, height, width)."""

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    positions: Tensor

    def __init__(self, settings: DiTSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.drops = settings.dropout > 0
        width, depth, heads = settings.dimensions
        channels, rows, columns = shape
        self.patch, entries = settings.patch, channels * settings.patch**2  # of a token
        self.embed = nn.Linear(entries, width)
        positions = sine_cosine_positions(width, rows // self.patch, columns // self.patch)
        self.register_buffer("positions", positions, persistent=False)
        self.noise_embedding = NoiseEmbedding(settings.frequencies, width)
        self.blocks = nn.ModuleList(Block(width, heads, settings.dropout, index) for index in range(depth))
        self.final_modulation = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, entries)
        self._initialise()
        self.registers = Registers(settings.registers, width)  # last: the other weights do not depend on their number

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

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        tokens = in_float32(self.embed, to_patches(x, self.patch)) + self.positions  # (n, length, width)
        condition = functional.silu(in_float32(self.noise_embedding, noise_label))  # (n, width)
        keys = row_keys(x) if self.drops and self.training else None
        tokens = self.registers.behind(tokens)
        for block in self.blocks:
            tokens = block(tokens, condition, keys)
        tokens = self.registers.without_back(tokens)
        shift, scale = self.final_modulation(condition)[:, None].chunk(2, dim=2)
        return from_patches(in_float32(self.head, modulate(tokens, shift, scale)), self.patch, x.shape)


class Block(nn.Module):
    """Attention and MLP, each shifted, scaled and gated by the noise level (adaLN-zero)."""

    def __init__(self, width: int, heads: int, dropout: float, index: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulation = nn.Linear(width, 6 * width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.attention_dropout, self.mlp_dropout = (RowDropout(dropout, 2 * index + branch) for branch in range(2))

    def forward(self, tokens: Tensor, condition: Tensor, keys: Tensor | None = None) -> Tensor:
        """Tokens (n, length, width) after the block; condition (n, width); keys (n,) of the rows, for dropout."""
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(condition)[:, None].chunk(6, dim=2)
        mixed = self_attention(self.query_key_value(modulate(tokens, shift_1, scale_1)), self.heads)
        tokens = torch.addcmul(tokens, gate_1, self.attention_dropout(self.project(mixed), keys))
        hidden = functional.gelu(self.expand(modulate(tokens, shift_2, scale_2)))
        return torch.addcmul(tokens, gate_2, self.mlp_dropout(self.contract(hidden), keys))


def modulate(tokens: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Normalised tokens · (1 + scale) + shift: tokens (n, length, width), shift and scale (n, 1, width)."""
    normed = functional.layer_norm(tokens, tokens.shape[-1:], eps=EPSILON)
    return torch.addcmul(shift, normed, 1 + scale)  # one pass over memory in place of two


def to_patches(x: Tensor, patch: int) -> Tensor:
    """Images (n, channels, height, width) as patches (n, length, channels·patch²), row by row."""
    if patch > 1:
        x = functional.pixel_unshuffle(x, patch)
    return x.flatten(2).transpose(1, 2)


def from_patches(patches: Tensor, patch: int, shape: Sequence[int]) -> Tensor:
    """Images of this shape (n, channels, height, width) from their patches."""
    entries = patches.transpose(1, 2)
    if patch == 1:
        return entries.reshape(shape)
    return functional.pixel_shuffle(entries.unflatten(2, (shape[2] // patch, shape[3] // patch)), patch)


class NoiseEmbedding(nn.Module):
    """Fourier features cos(ωc), sin(ωc) with ω from 1 down to 1e-4, then Linear, SiLU, Linear."""

    omega: Tensor

    def __init__(self, frequencies: int, width: int) -> None:
        super().__init__()
        half = frequencies // 2
        self.register_buffer("omega", torch.exp(-math.log(10_000) * torch.arange(half) / half), persistent=False)
        self.layers = nn.Sequential(nn.Linear(frequencies, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, label: Tensor) -> Tensor:
        """Labels (n,) to (n, width); to (1, width) where all rows share one label, as in a sampler."""
        phase = distinct_labels(label)[:, None].float() * self.omega
        features = torch.cat([phase.cos(), phase.sin()], dim=-1)
        return self.layers(features.to(label.dtype))  # type: ignore[no-any-return]


def sine_cosine_positions(width: int, rows: int, columns: int) -> Tensor:
    """Fixed 2D positions (rows·columns, width): half of the features code the column, half the row."""
    omega = 10_000.0 ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    phases = [axis.flatten()[:, None].double() * omega for axis in (column, row)]
    return torch.cat([part for phase in phases for part in (phase.sin(), phase.cos())], dim=1).float()
