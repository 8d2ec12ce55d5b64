"""U-Net over images with residual blocks and self-attention, in the layout of iDDPM (Nichol & Dhariwal 2021).

Each residual block is GroupNorm, SiLU, convolution, twice. The noise label enters by scale and shift of the second
GroupNorm, as in iDDPM and ADM: with addition, the GroupNorm behind it would remove what all channels of a group share.
Last layers start at zero, so a fresh network returns zero. With the same weights, outputs are those of diffusers'
``UNet2DModel`` with ``resnet_time_scale_shift="scale_shift"``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.models.attention import self_attention
from twoclocks.models.base import MODELS, MOST_DEPTH, MOST_WIDTH, ModelSettings, Network, in_float32
from twoclocks.models.dit import NoiseEmbedding
from twoclocks.models.dropout import RowDropout, row_keys

EPSILON = 1e-5  # of the normalisations
MOST_GROUPS = 32  # of channels in a GroupNorm
EMBEDDING = 4  # width of the noise embedding, in base channels


@MODELS.register("unet2d")
@dataclass(frozen=True, kw_only=True)
class UNet2dSettings(ModelSettings):
    """U-Net for images with residual blocks and self-attention, as in iDDPM."""

    task: ClassVar[str] = "denoise images"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((3, 32, 32), 256)

    width: int = setting(128, "base channels; even", at_least=2, at_most=MOST_WIDTH)
    multipliers: tuple[int, ...] = setting(
        (1, 2, 2, 2), "channels at each resolution, in base channels; each resolution halves the one before", at_least=1
    )
    blocks: int = setting(3, "residual blocks per resolution", at_least=1, at_most=MOST_DEPTH)
    attention: tuple[int, ...] = setting(
        (16, 8), "heights in pixels at which each residual block is followed by self-attention", at_least=1
    )
    heads: int = setting(4, "attention heads", at_least=1, at_most=MOST_WIDTH)
    dropout: float = setting(0.0, "probability of dropout in the residual blocks", at_least=0, below=1)
    variance: bool = setting(False, "predict variances too, as ddpm with learned variance needs")

    def check(self) -> None:
        if self.width % 2:
            raise SettingError("width", self.width, "use an even number (sine and cosine of the noise label)")
        if not 1 <= len(self.multipliers) <= 16:
            raise SettingError("multipliers", list(self.multipliers), "use 1 to 16 integers, such as [1, 2, 2]")
        if max(self.multipliers) * self.width > MOST_WIDTH:
            raise SettingError("multipliers", list(self.multipliers), f"use at most {MOST_WIDTH} channels")
        last = self.width * self.multipliers[-1]
        if last % self.heads:
            raise SettingError("heads", self.heads, f"use a divisor of the {last} channels at the lowest resolution")

    def heights(self, shape: tuple[int, ...]) -> list[int]:
        """The height of the image at each resolution."""
        return [shape[1] >> level for level in range(len(self.multipliers))]

    def check_shape(self, shape: tuple[int, ...]) -> None:
        parts = 2 ** (len(self.multipliers) - 1)
        if len(shape) != 3 or shape[1] % parts or shape[2] % parts:
            size = "×".join(map(str, shape[1:]))
            fix = f"images of {size} cannot be halved {len(self.multipliers) - 1} times; use fewer multipliers"
            raise SettingError("multipliers", list(self.multipliers), fix)
        heights = self.heights(shape)
        for height in self.attention:
            if height not in heights:
                fix = f"heights of the network are {', '.join(map(str, heights))}; use some of them, or []"
                raise SettingError("attention", height, fix)
        for height, multiplier in zip(heights, self.multipliers, strict=True):
            if height in self.attention and self.width * multiplier % self.heads:
                fix = f"use a divisor of the {self.width * multiplier} channels at height {height}"
                raise SettingError("heads", self.heads, fix)

    def activations(self, shape: tuple[int, ...], symbols: int) -> int:
        """Per residual block of either half: its input and output before and behind each normalisation."""
        total = 0
        for level, multiplier in enumerate(self.multipliers):
            pixels = math.prod(shape[1:]) >> (2 * level)
            total += (2 * self.blocks + 1) * 6 * self.width * multiplier * pixels
        return total

    @property
    def predicts_variance(self) -> bool:
        return self.variance

    @property
    def title(self) -> str:
        return f"U-Net {self.width}×{self.blocks} ({', '.join(map(str, self.multipliers))})"

    @classmethod
    def published(cls) -> Mapping[str, Self]:
        """The networks of iDDPM and P2 for CIFAR-10."""
        return {
            "iDDPM": cls(variance=True),
            "P2": cls(width=256, variance=True),
            "P2 large": cls(width=256, multipliers=(1, 2, 3, 4), variance=True),
        }

    def build(self, shape: tuple[int, ...], symbols: int) -> UNet2d:
        self.check_shape(shape)
        return UNet2d(self, shape)


class UNet2d(Network):
    """F(x, c): (n, channels, height, width) and a noise label (n,) to the same shape, or to twice the channels."""

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __init__(self, settings: UNet2dSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        width, heads, blocks = settings.width, settings.heads, settings.blocks
        self.drops = settings.dropout > 0
        widths = [width * multiplier for multiplier in settings.multipliers]
        attends = [height in settings.attention for height in settings.heights(shape)]
        salts = count()

        def residual(inputs: int, outputs: int) -> Residual:
            return Residual(inputs, outputs, EMBEDDING * width, RowDropout(settings.dropout, next(salts)))

        def attention(channels: int, present: bool = True) -> nn.Module:
            return SelfAttention(channels, heads) if present else nn.Identity()

        self.noise_embedding = NoiseEmbedding(width, EMBEDDING * width)
        self.embed = convolution(shape[0], width)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        skips, now = [width], width
        for level, (outputs, attend) in enumerate(zip(widths, attends, strict=True)):
            stage = Stage()
            for _ in range(blocks):
                stage.append(residual(now, outputs), attention(outputs, attend))
                now = outputs
                skips.append(now)
            if level < len(widths) - 1:
                stage.resize = convolution(now, now, stride=2)
                skips.append(now)
            self.down.append(stage)
        self.middle = Stage()
        self.middle.append(residual(now, now), attention(now))
        self.middle.append(residual(now, now), nn.Identity())
        for level, (outputs, attend) in reversed(list(enumerate(zip(widths, attends, strict=True)))):
            stage = Stage()
            for _ in range(blocks + 1):
                stage.append(residual(now + skips.pop(), outputs), attention(outputs, attend))
                now = outputs
            if level > 0:
                stage.resize = convolution(now, now)
            self.up.append(stage)
        self.norm = group_norm(now)
        self.head = zeroed(convolution(now, shape[0] * (2 if settings.variance else 1)))

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        condition = functional.silu(in_float32(self.noise_embedding, noise_label))  # (n, 4·width) or (1, 4·width)
        keys = row_keys(x) if self.drops and self.training else None
        hidden = in_float32(self.embed, x)
        skips = [hidden]
        for stage in stages(self.down):
            for residual, attention in stage.blocks():
                hidden = attention(residual(hidden, condition, keys))
                skips.append(hidden)
            if stage.resize is not None:
                hidden = stage.resize(hidden)
                skips.append(hidden)
        for residual, attention in self.middle.blocks():
            hidden = attention(residual(hidden, condition, keys))
        for stage in stages(self.up):
            for residual, attention in stage.blocks():
                hidden = attention(residual(torch.cat([hidden, skips.pop()], dim=1), condition, keys))
            if stage.resize is not None:
                hidden = stage.resize(functional.interpolate(hidden, scale_factor=2.0, mode="nearest"))
        return in_float32(self.head, functional.silu(self.norm(hidden)))


class Stage(nn.Module):
    """The blocks of one resolution, and the convolution that leads to the next one, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.residuals, self.attentions = nn.ModuleList(), nn.ModuleList()
        self.resize: nn.Module | None = None

    def append(self, residual: nn.Module, attention: nn.Module) -> None:
        self.residuals.append(residual)
        self.attentions.append(attention)

    def blocks(self) -> Iterator[tuple[nn.Module, nn.Module]]:
        """Each residual block with the attention behind it."""
        return zip(self.residuals, self.attentions, strict=True)


def stages(modules: nn.ModuleList) -> list[Stage]:
    """The modules of a list, all of which are stages."""
    return cast("list[Stage]", list(modules))


class Residual(nn.Module):
    """Two convolutions beside a shortcut; the noise embedding scales and shifts what the second one reads."""

    def __init__(self, inputs: int, outputs: int, condition: int, dropout: RowDropout) -> None:
        super().__init__()
        self.norm_1 = group_norm(inputs)
        self.conv_1 = convolution(inputs, outputs)
        self.modulation = nn.Linear(condition, 2 * outputs)
        self.norm_2 = group_norm(outputs)
        self.dropout = dropout
        self.conv_2 = zeroed(convolution(outputs, outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, condition: Tensor, keys: Tensor | None) -> Tensor:
        hidden = self.conv_1(functional.silu(self.norm_1(x)))
        scale, shift = self.modulation(condition)[:, :, None, None].chunk(2, dim=1)
        hidden = functional.silu(torch.addcmul(shift, self.norm_2(hidden), 1 + scale))
        out: Tensor = self.shortcut(x) + self.conv_2(self.dropout(hidden, keys))
        return out


class SelfAttention(nn.Module):
    """Multi-head attention among all pixels, added to its input."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = group_norm(channels)
        self.query_key_value = nn.Linear(channels, 3 * channels)
        self.project = zeroed(nn.Linear(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x).flatten(2).transpose(1, 2)  # (n, pixels, channels)
        mixed: Tensor = self.project(self_attention(self.query_key_value(tokens), self.heads))
        return x + mixed.transpose(1, 2).reshape(x.shape)


def group_norm(channels: int) -> nn.GroupNorm:
    """GroupNorm with 32 groups, or with as many as divide the channels of a narrow network."""
    return nn.GroupNorm(math.gcd(MOST_GROUPS, channels), channels, eps=EPSILON)


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)


def zeroed(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    """The layer with zeros for its weights and biases."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
