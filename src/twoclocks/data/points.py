"""An encoding of symbols as random Gaussian points: data without rule or structure other than distances."""

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

ROWS = 1024  # rows of a distance matrix that are computed at once


@ENCODINGS.register("gaussian")
@dataclass(frozen=True, kw_only=True)
class GaussianPoints(ImageEncoding):
    """Each symbol is a random standard Gaussian point, with one channel per coordinate.

    >>> GaussianPoints(dimension=64).codes(1000).shape
    torch.Size([1000, 64])
    """

    dimension: int = setting(64, "coordinates per point", at_least=1, at_most=1 << 16)
    seed: int = setting(0, "seed of the points; data.seed chooses among them")

    def codes(self, symbols: int) -> Tensor:
        return gaussian_points(symbols, self.dimension, self.seed)

    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        """Find the nearest points, chunk by chunk, since the matrix of all distances may be large."""
        codes = self.codes(rule.symbols).to(x)
        parts = x.split(ROWS)  # float32 is enough: random points are far apart
        nearest = torch.cat([self.scores(rule, part).argmax(dim=2) for part in parts])  # (n, entries)
        distance = (pixels_of(x, self.dimension) - codes[nearest]).abs().flatten(1).amax(dim=1)
        return Decoded(nearest.reshape(len(x), *rule.shape), distance)

    def score_bytes(self, rule: Arrays) -> int:
        return 0  # computed chunk by chunk

    def unit(self, rule: Arrays) -> float:
        """Half the smallest distance between two points."""
        codes = self.codes(rule.symbols).float()
        if len(codes) < 2:
            return 1.0
        smallest = [torch.cdist(part, codes).topk(2, largest=False).values[:, 1].min() for part in codes.split(ROWS)]
        return float(torch.stack(smallest).min()) / 2


@lru_cache(maxsize=8)
def gaussian_points(symbols: int, dimension: int, seed: int) -> Tensor:
    """Random points (symbols, dimension), float64, equal on every machine; fewer points are a prefix of more."""
    return torch.from_numpy(numpy_stream(seed, "gaussian points").standard_normal((symbols, dimension)))
