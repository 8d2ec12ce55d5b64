"""The GPT trunk with attention to all positions: restores tokens that noise has replaced or masked (MD4, D3PM)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.models.base import MODELS, in_float32
from twoclocks.models.gpt import GPT, GPTSettings
from twoclocks.models.noise_features import noise_features


@MODELS.register("gpt_full")
@dataclass(frozen=True, kw_only=True)
class FullGPTSettings(GPTSettings):
    """GPT's trunk with full attention, for noisy or masked tokens."""

    written: ClassVar[str] = "full GPT"
    task: ClassVar[str] = "restore tokens"

    told_noise: bool = setting(True, "whether the network reads the noise level; masked tokens show it already")

    def build(self, shape: tuple[int, ...], symbols: int) -> FullGPT:
        return FullGPT(self, length=math.prod(shape), symbols=symbols)


class FullGPT(GPT):
    """Logits (n, length, symbols) of the clean tokens, from noisy ones (n, length), −1 a mask, and their noise (n,)."""

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    causal: ClassVar[bool] = False

    def __init__(self, settings: FullGPTSettings, length: int, symbols: int) -> None:
        super().__init__(settings, length, symbols, reads_noise=settings.told_noise)

    def new_cache(self) -> Any:
        return None  # every position reads all others: nothing can be kept

    def forward(self, tokens: Tensor, noise: Any = None) -> Tensor:
        hidden = self.registers.behind(self.embed(tokens) + self.noise_offset(noise))
        keys = self.dropout_keys(tokens) if noise is None else self.dropout_keys(tokens, noise[:, None])
        for block in self.blocks:
            hidden = block(hidden, keys)
        hidden = self.registers.without_back(hidden)
        return in_float32(self.head, in_float32(self.final_norm, hidden))

    def noise_offset(self, noise: Any) -> Tensor | float:
        """What the noise level (n,) adds to every position: (n, 1, width), or 0 where the network does not read it."""
        return 0.0 if self.noise is None else in_float32(self.noise, noise_features(noise))[:, None]
