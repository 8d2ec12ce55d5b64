"""Square grids whose lines are permutations of the symbols: code shared by Latin squares and Sudoku."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twoclocks.core.lazy import torch
from twoclocks.rules.base import Array, Rule

if TYPE_CHECKING:
    from torch import Tensor

Grids = npt.NDArray[np.uint8]  # (n, side, side)


@dataclass(frozen=True, kw_only=True)
class PermutationGrid(Rule):
    """Base class: each piece (row, column, block) contains every symbol once; a subclass defines the pieces."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of rows, which is also that of columns and of symbols."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size, self.size)

    @property
    def symbols(self) -> int:
        return self.size

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        return {kind: all_different(piece) for kind, piece in self.parts(self.as_samples(x)).items()}

    def part_counts(self) -> dict[str, int]:
        return dict.fromkeys(self.parts(self.empty(1)), math.factorial(self.size))


def all_different(pieces: Tensor) -> Tensor:
    """Whether a piece (n, pieces, entries) contains each symbol 0 … entries−1 once: bool (n, pieces).

    A sum of k powers of two below 2^k has k ones in binary only if all powers differ.
    """
    entries = pieces.shape[2]
    known = (pieces >= 0) & (pieces < entries)
    powers = torch.where(known, 1 << pieces.long().clamp(0, entries - 1), 0)
    return powers.sum(dim=2) == (1 << entries) - 1


def random_permutations(n: int, size: int, rng: np.random.Generator) -> Grids:
    """n independent uniform permutations (n, size)."""
    return rng.permuted(np.broadcast_to(np.arange(size, dtype=np.uint8), (n, size)), axis=1)


def permute(grids: Grids, axis: int, orders: Array) -> Grids:
    """Reorder the rows (axis 1) or columns (axis 2) of each grid by its own permutation (n, side)."""
    return np.take_along_axis(grids, np.expand_dims(orders, 3 - axis), axis=axis)


def relabel(grids: Grids, names: Grids) -> Grids:
    """Rename the symbols of each grid by its own permutation (n, side)."""
    n, side, _ = grids.shape
    return np.take_along_axis(names, grids.reshape(n, side * side), axis=1).reshape(n, side, side)


def draw_isotopic(grids: Grids, rng: np.random.Generator) -> Grids:
    """Permute rows, columns and symbols of each grid at random: a uniform draw from its isotopy class."""
    n, side, _ = grids.shape
    for axis in (1, 2):
        grids = permute(grids, axis, random_permutations(n, side, rng))
    return relabel(grids, random_permutations(n, side, rng))


def cyclic_square(side: int) -> Grids:
    """The addition table of the integers modulo ``side``."""
    line = np.arange(side)
    return ((line[:, None] + line) % side).astype(np.uint8)


def all_grids(side: int, is_allowed: Callable[[Grids, Grids], npt.NDArray[np.bool_]]) -> Grids:
    """List all grids whose first row is 0 … side−1, built row by row.

    ``is_allowed(grids (a, rows, side), candidates (b, side))`` says which candidates may be the next row: bool (a, b).
    """
    candidates = np.array(list(itertools.permutations(range(side))), dtype=np.uint8)
    grids = candidates[:1, None]
    for _ in range(side - 1):
        grown = []
        for piece in np.array_split(grids, 1 + len(grids) * len(candidates) // (1 << 22)):
            which, row = np.nonzero(is_allowed(piece, candidates))
            grown.append(np.concatenate([piece[which], candidates[row][:, None]], axis=1))
        grids = np.concatenate(grown)
    return grids


def no_column_repeats(grids: Grids, candidates: Grids) -> npt.NDArray[np.bool_]:
    """Whether a candidate differs from every row above it in every column: bool (a, b)."""
    allowed = np.ones((len(grids), len(candidates)), dtype=bool)
    for row in range(grids.shape[1]):
        for column in range(grids.shape[2]):
            allowed &= grids[:, row, column, None] != candidates[None, :, column]
    return allowed
