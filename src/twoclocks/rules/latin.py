"""Latin squares: every symbol occurs once in each row and column, or only in each row (P1 B.4.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.lazy import torch
from twoclocks.rules.automaton import log_state_weights
from twoclocks.rules.base import RULES, Array
from twoclocks.rules.grids import (
    Grids,
    PermutationGrid,
    all_grids,
    cyclic_square,
    draw_isotopic,
    no_column_repeats,
    permute,
    random_permutations,
)
from twoclocks.rules.jacobson_matthews import random_walk, walk_length

if TYPE_CHECKING:
    from torch import Tensor

# Number of Latin squares whose first row and column are in order, by side (OEIS A000315); unknown beyond 11.
REDUCED = (
    1,
    1,
    1,
    4,
    56,
    9_408,
    16_942_080,
    535_281_401_856,
    377_597_570_964_258_816,
    7_580_721_483_160_132_811_489_280,
    5_363_937_773_277_371_298_119_673_540_771_840,
)
LISTED_SIDE = 6  # up to this side the reduced squares are listed, and sampling is exact


@cache
def reduced_squares(side: int) -> Grids:
    """All squares whose first row and first column are 0 … side−1."""

    def is_allowed(grids: Grids, candidates: Grids) -> Any:
        return no_column_repeats(grids, candidates) & (candidates[:, 0] == grids.shape[1])

    return all_grids(side, is_allowed)


@RULES.register("latin")
@dataclass(frozen=True, kw_only=True)
class Latin(PermutationGrid):
    """Every row and every column of a square grid contains each symbol once.

    Up to side 6 samples are exactly uniform: a random reduced square from a list, with its columns and all rows but
    the first permuted, which gives every square once. Larger squares come from the Markov chain of Jacobson and
    Matthews, after side³ squares.

    >>> Latin(side=6).count()
    812851200
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"side": 6}, {"side": 5})
    exchangeable: ClassVar[str | None] = "row"
    side: int = setting(
        help="rows, columns and symbols; beyond 11 the number of squares is unknown", at_least=1, at_most=11
    )

    @property
    def size(self) -> int:
        return self.side

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"row": x, "column": x.transpose(1, 2)}

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        if self.side > LISTED_SIDE:
            start = draw_isotopic(np.broadcast_to(cyclic_square(self.side), (n, self.side, self.side)), rng)
            return random_walk(start, walk_length(self.side), rng)
        listed = reduced_squares(self.side)
        squares = permute(listed[rng.integers(0, len(listed), size=n)], 2, random_permutations(n, self.side, rng))
        below = 1 + random_permutations(n, self.side - 1, rng)
        return permute(squares, 1, np.insert(below, 0, 0, axis=1))

    def count(self) -> int:
        return math.factorial(self.side) * math.factorial(self.side - 1) * REDUCED[self.side - 1]

    def transposed(self) -> Latin:
        return self

    def members(self) -> Tensor:
        columns = np.array(list(permutations(range(self.side))))
        rows = np.array([(0, *below) for below in permutations(range(1, self.side))])
        squares = reduced_squares(self.side)[:, :, columns].transpose(0, 2, 1, 3)  # (reduced, columns, row, column)
        squares = squares[:, :, rows]  # (reduced, columns, rows, row, column)
        return torch.from_numpy(squares.reshape(-1, self.side, self.side).astype(np.int64))


@RULES.register("latin_cyclic")
@dataclass(frozen=True, kw_only=True)
class CyclicLatin(Latin):
    """Latin squares as P1 draws them: random permutations of the cyclic square.

    Rows, columns and symbols are permuted: samples are uniform over one isotopy class, that of addition modulo
    ``side``, and never come from the others. Sides 4 and 5 have 2 classes, side 6 has 22; there 0.64% of the squares
    can be drawn. Validity is that of ``latin``.

    >>> CyclicLatin(side=6).support() / CyclicLatin(side=6).count()
    0.0063...
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"side": 6},)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return draw_isotopic(np.broadcast_to(cyclic_square(self.side), (n, self.side, self.side)), rng)

    def support(self) -> int:
        """(side!)³ isotopies, of which side²·φ(side) leave the cyclic square as it is."""
        units = sum(math.gcd(k, self.side) == 1 for k in range(1, self.side + 1))
        return math.factorial(self.side) ** 3 // (self.side**2 * units)

    def members(self) -> Tensor:
        squares = super().members()
        return squares[torch.from_numpy(is_cyclic(squares.numpy().astype(np.uint8)))]


def is_cyclic(squares: Grids) -> Any:
    """Which Latin squares are isotopic to the cyclic one: bool (n,).

    They are those whose rows, as permutations relative to the first row, form a cyclic group: all rows are powers
    of one row.
    """
    n, side, _ = squares.shape
    first = squares[:, 0].argsort(axis=1)  # symbol -> column of the first row
    relative = np.take_along_axis(squares, first[:, None, :], axis=2)  # (n, row, symbol): σ_r = row_r ∘ row_0⁻¹
    members = np.sort(permutation_codes(relative), axis=1)
    cyclic = np.zeros(n, dtype=bool)
    for row in range(side):
        powers = [np.broadcast_to(np.arange(side), (n, side))]
        for _ in range(side - 1):
            powers.append(np.take_along_axis(relative[:, row].astype(np.int64), powers[-1], axis=1))
        cyclic |= (np.sort(permutation_codes(np.stack(powers, axis=1)), axis=1) == members).all(axis=1)
    return cyclic


def permutation_codes(rows: Array) -> Array:
    """One integer per row (…, side); different rows have different integers."""
    side = rows.shape[-1]
    codes: Array = rows.astype(np.int64) @ (side ** np.arange(side))
    return codes


@RULES.register("row_latin")
@dataclass(frozen=True, kw_only=True)
class RowLatin(PermutationGrid):
    """Every row of a square grid contains each symbol once; columns are not constrained.

    >>> RowLatin(side=6).count() == 720**6
    True
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"side": 6},)
    exchangeable: ClassVar[str | None] = "row"
    side: int = setting(help="rows, columns and symbols", at_least=1, at_most=32)

    @property
    def size(self) -> int:
        return self.side

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"row": x}

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return random_permutations(n * self.side, self.side, rng).reshape(n, self.side, self.side)

    def count(self) -> int:
        return int(math.factorial(self.side) ** self.side)

    def log_partition(self, logits: Tensor) -> Tensor | None:
        """The state of the automaton is the set of symbols so far: 2^side states, so only for small sides."""
        if self.side > 8:
            return None
        rows = logits.reshape(len(logits), self.side, self.side, self.side)
        ends = log_state_weights(
            rows, states=1 << self.side, step=lambda seen, symbol: None if seen >> symbol & 1 else seen | 1 << symbol
        )
        return ends[..., -1].sum(dim=1)
