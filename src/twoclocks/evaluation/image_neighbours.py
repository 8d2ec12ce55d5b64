"""The two nearest training images of a sample, and copies by their ratio: d₁/d₂ < 1/3 (Yoon et al. 2023; P2).

Pixels are integers, so products in float64 are exact, and so is every squared distance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

SIDE = 2048  # rows of a factor: a product of two takes 32 MiB
SCALE = 127.5  # pixels 0 to 255 are numbers from −1 to 1


class Nearest(NamedTuple):
    """The two nearest images of each sample, the nearest first."""

    distance: Tensor  # (n, 2), float64: root mean square over the values of an image, which lie in [−1, 1]
    row: Tensor  # (n, 2), int64

    @property
    def ratio(self) -> Tensor:
        """d₁/d₂ (n,); 0 where the nearest image is equal, 1 where the second is equal too."""
        first, second = self.distance.unbind(dim=1)
        return torch.where(second > 0, first / second.clamp(min=torch.finfo(second.dtype).tiny), 1.0)


class ImageNeighbours:
    """A set of at least two images, with which others are compared tile by tile.

    >>> pixels = torch.tensor([[[[0, 0]]], [[[255, 255]]], [[[0, 255]]]])
    >>> ImageNeighbours(pixels).two_nearest(torch.tensor([[[[0, 51]]]])).row.tolist()
    [[0, 2]]
    """

    def __init__(self, images: Tensor, mirrored: bool = False) -> None:
        """``mirrored``: an image and its mirror image count as one, of which the nearer is taken."""
        if len(images) < 2:
            raise ValueError(f"{len(images)} images have no two nearest ones")
        self.images, self.mirrored = images.flatten(1).to(torch.uint8), mirrored

    def __len__(self) -> int:
        return len(self.images)

    def two_nearest(self, samples: Tensor) -> Nearest:
        """The two nearest images of each sample (n, *shape) of pixels 0 to 255."""
        rows = samples.flatten(1)
        if rows.shape[1] != self.images.shape[1]:
            raise ValueError(f"samples of {rows.shape[1]} values, the images have {self.images.shape[1]}")
        squares, indices = self.of_rows(rows)
        if self.mirrored:
            squares, indices = nearer(squares, indices, *self.of_rows(samples.flip(-1).flatten(1)))
        return Nearest((squares / rows.shape[1]).sqrt() / SCALE, indices)

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances and indices (n, 2) of the two nearest images."""
        found = [self.of_tile(part.double()) for part in rows.split(SIDE)]
        squares, indices = (torch.cat(parts) for parts in zip(*found, strict=True))
        return squares, indices

    def of_tile(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances and indices (n, 2) of the two nearest images."""
        best, where = [], []
        for start in range(0, len(self.images), SIDE):
            images = self.images[start : start + SIDE].double()
            squares = rows.square().sum(dim=1)[:, None] - 2 * rows @ images.T + images.square().sum(dim=1)
            values, indices = squares.topk(min(2, len(images)), dim=1, largest=False)
            best.append(values)
            where.append(indices + start)
        values, order = torch.cat(best, dim=1).topk(2, dim=1, largest=False)
        return values, torch.cat(where, dim=1).gather(1, order)


def nearer(squares: Tensor, indices: Tensor, other_squares: Tensor, other_indices: Tensor) -> tuple[Tensor, Tensor]:
    """The two nearest different images out of the two nearest of a sample and those of its mirror image.

    All are (n, 2). If the nearest of all is in both pairs, the others are the nearest besides it, so nothing is missed.
    """
    every, where = torch.cat([squares, other_squares], dim=1), torch.cat([indices, other_indices], dim=1)
    first = every.argmin(dim=1, keepdim=True)
    best, chosen = every.gather(1, first), where.gather(1, first)
    rest = every.masked_fill(where == chosen, math.inf)
    second = rest.argmin(dim=1, keepdim=True)
    return torch.cat([best, rest.gather(1, second)], dim=1), torch.cat([chosen, where.gather(1, second)], dim=1)


class RatioCopies:
    """Copies of images: the nearest one is much nearer than the second.

    A copy of an image that stands in the set twice, or nearly so, is not found: both are equally near.
    """

    def __init__(self, images: Tensor, ratio: float, mirrored: bool = False) -> None:
        self.neighbours, self.ratio = ImageNeighbours(images, mirrored), ratio

    def __len__(self) -> int:
        return len(self.neighbours)

    def found(self, rows: Tensor) -> Tensor:
        """Which images (n, *shape) are copies: bool (n,)."""
        return self.among(self.neighbours.two_nearest(rows))

    def among(self, nearest: Nearest) -> Tensor:
        """The same, of images whose nearest ones are known."""
        return nearest.ratio < self.ratio


def fraction(value: float) -> str:
    """A ratio in words: ``1/3``, ``0.4``."""
    inverse = round(1 / value)
    return f"1/{inverse}" if math.isclose(inverse * value, 1, rel_tol=1e-6) else f"{value:g}"
