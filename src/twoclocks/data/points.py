"""Every symbol as a random point in space: data that have no rule and no structure but their distances."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from twoclocks.core.config import setting
from twoclocks.core.lazy import torch
from twoclocks.core.seeds import numpy_stream
from twoclocks.data.encodings import ENCODINGS, Arrays, Decoded, ImageEncoding, pixels_of

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 1024  # rows of a table of distances that are made at once


@ENCODINGS.register("gaussian")
@dataclass(frozen=True, kw_only=True)
class GaussianPoints(ImageEncoding):
    """A standard Gaussian point for each symbol, a channel for each of its coordinates.

    >>> GaussianPoints(dimension=64).codes(1000).shape
    torch.Size([1000, 64])
    """

    dimension: int = setting(64, "coordinates of a point", at_least=1, at_most=1 << 16)
    seed: int = setting(0, "seed of the points, apart from that of the choice among them")

    def codes(self, symbols: int) -> Tensor:
        return gaussian_points(symbols, self.dimension, self.seed)

    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        """The nearest points; piece by piece, as the table of all distances may be large."""
        codes = self.codes(rule.symbols).to(x)
        parts = x.split(ROWS)  # single precision tells random points apart
        nearest = torch.cat([self.scores(rule, part).argmax(dim=2) for part in parts])  # (n, entries)
        distance = (pixels_of(x, self.dimension) - codes[nearest]).abs().flatten(1).amax(dim=1)
        return Decoded(nearest.reshape(len(x), *rule.shape), distance)

    def unit(self, rule: Arrays) -> float:
        """Half the smallest distance between two points."""
        codes = self.codes(rule.symbols).float()
        if len(codes) < 2:
            return 1.0
        smallest = [torch.cdist(part, codes).topk(2, largest=False).values[:, 1].min() for part in codes.split(ROWS)]
        return float(torch.stack(smallest).min()) / 2


@lru_cache(maxsize=8)
def gaussian_points(symbols: int, dimension: int, seed: int) -> Tensor:
    """(symbols, dimension), float64, the same on every machine; a smaller book is the beginning of a larger one."""
    return torch.from_numpy(numpy_stream(seed, "gaussian points").standard_normal((symbols, dimension)))
