"""The two nearest training images of a sample, and copies by their ratio: d₁/d₂ < 1/3 (Yoon et al. 2023; P2).

Pixels are integers, so every squared distance is exact: from products of 8-bit integers, which processors and GPUs make
fastest, or in float64 where an image is so large that a sum of squares does not fit into 32 bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

SIDE = {"cpu": 2048, "cuda": 8192}  # rows of a factor: a product of two takes 16 or 256 MiB
SCALE = 127.5  # pixels 0 to 255 are numbers from −1 to 1
MIDDLE = 128  # subtracted from a pixel, it is a signed integer of 8 bits
MOST_VALUES = (2**31 - 1) // 255**2  # of an image: the largest squared distance fits into 32 bits
SMALL = 256  # values of an image below which float64 is faster (measured on a CPU)


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
        self.images, self.mirrored = pixel_rows(images), mirrored

    def __len__(self) -> int:
        return len(self.images)

    def two_nearest(self, samples: Tensor) -> Nearest:
        """The two nearest images of each sample (n, *shape) of pixels 0 to 255."""
        rows = pixel_rows(samples)
        if rows.shape[1] != self.images.shape[1]:
            raise ValueError(f"samples of {rows.shape[1]} values, the images have {self.images.shape[1]}")
        squares, indices = self.of_rows(rows)
        if self.mirrored:
            squares, indices = nearer(squares, indices, *self.of_rows(pixel_rows(samples.flip(-1))))
        return Nearest((squares / rows.shape[1]).sqrt() / SCALE, indices)

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances (float64) and indices (n, 2) of the two nearest images."""
        found = [self.of_tile(part) for part in rows.split(SIDE[rows.device.type])]
        squares, indices = (torch.cat(parts) for parts in zip(*found, strict=True))
        return squares.double(), indices

    def of_tile(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Squared distances and indices (n, 2) of the two nearest images."""
        best, where, side = [], [], SIDE[rows.device.type]
        factor = Factor.of(rows)
        for start in range(0, len(self.images), side):
            images = self.images[start : start + side]
            values, indices = factor.squared_distances(images).topk(min(2, len(images)), dim=1, largest=False)
            best.append(values)
            where.append(indices + start)
        values, order = torch.cat(best, dim=1).topk(2, dim=1, largest=False)
        return values, torch.cat(where, dim=1).gather(1, order)


def pixel_rows(images: Tensor) -> Tensor:
    """Images (n, *shape) of integers from 0 to 255 as rows (n, values) of bytes."""
    rows = images.flatten(1)
    if rows.is_floating_point() or rows.is_complex():
        raise ValueError(f"images of {rows.dtype}; give integers from 0 to 255")
    if rows.dtype != torch.uint8 and rows.numel() and not bool(((rows >= 0) & (rows <= 255)).all()):
        raise ValueError("images have values below 0 or above 255; give integers from 0 to 255")
    return rows.to(torch.uint8)


class Factor(NamedTuple):
    """Pixels (n, values) as a factor of products, and their sums of squares (n, 1)."""

    values: Tensor  # 8-bit integers from −128 to 127, or float64
    squares: Tensor  # int32 or float64

    @classmethod
    def of(cls, rows: Tensor) -> Factor:
        """The factor of rows of bytes."""
        if not SMALL <= rows.shape[1] <= MOST_VALUES:
            values = rows.double()
            return cls(values, values.square().sum(dim=1, keepdim=True))
        shifted = rows.to(torch.int16) - MIDDLE
        squares = shifted.to(torch.int32).square().sum(dim=1, keepdim=True, dtype=torch.int32)
        return cls(shifted.to(torch.int8), squares)

    def squared_distances(self, images: Tensor) -> Tensor:
        """Exact squared distances (n, m) to other rows of bytes (m, values)."""
        other = Factor.of(images)
        product = self.product(other)
        return product.mul_(-2).add_(self.squares).add_(other.squares.T)

    def product(self, other: Factor) -> Tensor:
        """All products (n, m) of rows with the rows of another factor."""
        if self.values.is_floating_point():
            return self.values @ other.values.T
        left, right = padded(self.values, LEAST_ROWS), padded(other.values, MULTIPLE)
        return torch._int_mm(left, right.T)[: len(self.values), : len(other.values)]


LEAST_ROWS, MULTIPLE = 24, 8  # a GPU's integer products want more than 16 rows, and multiples of 8


def padded(values: Tensor, least: int) -> Tensor:
    """Zeros behind rows and columns, up to a multiple of 8 and to ``least`` rows; products do not change by them."""
    n, columns = values.shape
    rows = max(n, least)
    more = -rows % MULTIPLE + rows - n, -columns % MULTIPLE
    return values if more == (0, 0) else torch.nn.functional.pad(values, (0, more[1], 0, more[0]))


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
