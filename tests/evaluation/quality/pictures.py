"""Real digits for tests of quality: images, labels, ways to spoil them, and a rule that draws them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from twoclocks.rules.base import Array, Rule

RESERVED = 597


@cache
def digits() -> tuple[Tensor, Tensor]:
    """1,797 digits (n, 1, 8, 8), uint8, in a random order, and their classes."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.images))
    pixels = np.round(255 * found.images[order] / 16).astype(np.uint8)
    return torch.from_numpy(pixels[:, None]), torch.from_numpy(found.target[order])


def blurred(pixels: Tensor, sigma: float) -> Tensor:
    reach = torch.arange(-3, 4).float()
    weights = torch.exp(-reach.square() / (2 * sigma**2))
    weights = weights / weights.sum()
    padded = torch.nn.functional.pad(pixels.float(), (3, 3, 3, 3), mode="replicate")
    rows = torch.nn.functional.conv2d(padded, weights.reshape(1, 1, 1, 7))
    return torch.nn.functional.conv2d(rows, weights.reshape(1, 1, 7, 1)).round().clamp(0, 255).byte()


def noisy(pixels: Tensor, sigma: float) -> Tensor:
    """With noise of this standard deviation, where pixels are −1 to 1."""
    noise = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(7))
    return (pixels.float() + 127.5 * sigma * noise).round().clamp(0, 255).byte()


@dataclass(frozen=True, kw_only=True)
class Digits(Rule):
    """Draws real digits; the first of them are kept for the feature network."""

    has_rule: ClassVar[bool] = False
    is_corpus: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, 8, 8)

    @property
    def symbols(self) -> int:
        return 256

    def reserved(self) -> Tensor:
        return digits()[0][:RESERVED]

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        pool = digits()[0][RESERVED:].numpy().astype(np.int64)
        return pool[rng.integers(0, len(pool), size=n)]

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"image": x.reshape(len(x), 1, 64)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        return {"image": torch.ones(len(x), 1, dtype=torch.bool)}

    def count(self) -> int:
        return len(digits()[0]) - RESERVED

    def part_counts(self) -> dict[str, int]:
        return {"image": self.count()}
