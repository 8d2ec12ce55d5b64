"""Sudoku: Latin squares whose blocks also contain every symbol once (P1 B.4.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.rules import heat_bath
from twoclocks.rules.base import RULES, Array
from twoclocks.rules.grids import (
    Grids,
    PermutationGrid,
    all_different,
    all_grids,
    no_column_repeats,
    random_permutations,
    relabel,
)
from twoclocks.rules.latin import CyclicLatin, Latin, is_cyclic

if TYPE_CHECKING:
    from torch import Tensor

COUNTS = {  # known numbers of grids by block shape, smaller side first (OEIS A107739, A291187); others are unknown
    (2, 2): 288,
    (2, 3): 28_200_960,
    (2, 4): 29_136_487_207_403_520,
    (2, 5): 1_903_816_047_972_624_930_994_913_280_000,
    (2, 6): 38_296_278_920_738_107_863_746_324_732_012_492_486_187_417_600_000,
    (3, 3): 6_670_903_752_021_072_936_960,
    (3, 4): 81_171_437_193_104_932_746_936_103_027_318_645_818_654_720_000,
}
CYCLIC = {(2, 2): 8, (2, 3): 432}  # of them, with an ordered first row, those that are isotopic to the cyclic square
LISTED_SIDE = 6  # up to this side the grids with an ordered first row are listed, and sampling is exact


@cache
def ordered_grids(block_rows: int, block_cols: int) -> Grids:
    """List all grids whose first row is 0 … side−1; renaming their symbols gives every grid once."""
    side = block_rows * block_cols

    def is_allowed(grids: Grids, candidates: Grids) -> Any:
        allowed = no_column_repeats(grids, candidates)
        for row in range(grids.shape[1] // block_rows * block_rows, grids.shape[1]):  # the rows of this band
            for first in range(0, side, block_cols):
                block = slice(first, first + block_cols)
                above, new = (
                    np.bitwise_or.reduce(1 << rows[:, block].astype(int), axis=1)
                    for rows in (grids[:, row], candidates)
                )
                allowed &= (above[:, None] & new) == 0
        return allowed

    return all_grids(side, is_allowed)


@RULES.register("sudoku")
@dataclass(frozen=True, kw_only=True)
class Sudoku(PermutationGrid):
    """Every row, column and block of a square grid contains each symbol once.

    Up to side 6 samples are exactly uniform: a grid with an ordered first row is drawn from a list, and its symbols
    are renamed. Blocks of one row or column give a Latin square. Larger grids come from a heat-bath Markov chain of
    2·side² sweeps.

    >>> Sudoku().count()
    28200960
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"block_rows": 2, "block_cols": 3},)
    block_rows: int = setting(2, "rows of a block", at_least=1)
    block_cols: int = setting(3, "columns of a block; rows × columns is the side and the number of symbols", at_least=1)

    def check(self) -> None:
        field = self.longer
        if 1 in self.block_shape:
            if self.size > 11:
                raise SettingError(field, self.size, "blocks of one line make a Latin square; use at most 11")
        elif self.block_shape not in COUNTS:
            known = ", ".join(f"{rows}×{columns}" for rows, columns in COUNTS)
            fix = f"the number of {self.size}×{self.size} grids is unknown; use blocks of {known}, or their transpose"
            raise SettingError(field, getattr(self, field), fix)

    @property
    def longer(self) -> str:
        """Name of the larger of the two settings of a block, for error messages."""
        return "block_rows" if self.block_rows > self.block_cols else "block_cols"

    @property
    def block_shape(self) -> tuple[int, int]:
        """The smaller side of a block, then the larger; a grid and its transpose have the same count."""
        return min(self.block_rows, self.block_cols), max(self.block_rows, self.block_cols)

    @property
    def size(self) -> int:
        return self.block_rows * self.block_cols

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        rows, columns = self.block_rows, self.block_cols
        blocks = x.reshape(len(x), columns, rows, rows, columns).transpose(2, 3)  # band, stack, row, column
        return {"row": x, "column": x.transpose(1, 2), "block": blocks.reshape(len(x), self.size, self.size)}

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        if 1 in self.block_shape:
            return Latin(side=self.size).draw(n, rng)
        if self.size > LISTED_SIDE:
            return heat_bath.random_walk(n, self.block_rows, self.block_cols, heat_bath.sweep_count(self.size), rng)
        listed = ordered_grids(self.block_rows, self.block_cols)
        return relabel(listed[rng.integers(0, len(listed), size=n)], random_permutations(n, self.size, rng))

    def transposed(self) -> Sudoku:
        return replace(self, block_rows=self.block_cols, block_cols=self.block_rows)

    def count(self) -> int:
        return Latin(side=self.size).count() if 1 in self.block_shape else COUNTS[self.block_shape]

    def members(self) -> Tensor:
        if 1 in self.block_shape:
            return Latin(side=self.size).members()
        names = np.array(list(permutations(range(self.size))))
        return torch.from_numpy(names[:, ordered_grids(self.block_rows, self.block_cols)].reshape(-1, *self.shape))


@RULES.register("sudoku_cyclic")
@dataclass(frozen=True, kw_only=True)
class CyclicSudoku(Sudoku):
    """Sudoku as P1 draws it: permuted cyclic Latin squares, accepted if their blocks are valid.

    Samples are uniform over the Sudoku grids that are isotopic to addition modulo the side, and never come from the
    others: with 2×3 blocks 6% of the squares are accepted, and they are 1.1% of all grids. Validity is that of
    ``sudoku``.

    >>> CyclicSudoku().support() / CyclicSudoku().count()
    0.0110...
    """

    def check(self) -> None:
        super().check()
        if self.size > LISTED_SIDE:
            fix = f"its support at side {self.size} is unknown; use a side of at most 6, or the rule sudoku"
            raise SettingError(self.longer, getattr(self, self.longer), fix)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        squares = CyclicLatin(side=self.size)
        accepted, found = [np.empty((0, *self.shape), dtype=np.uint8)], 0
        while found < n:
            candidates = squares.draw(1 << 16, rng)
            blocks = self.parts(torch.from_numpy(candidates))["block"]
            accepted.append(candidates[all_different(blocks).all(dim=1).numpy()])
            found += len(accepted[-1])
        return np.concatenate(accepted)[:n]

    def support(self) -> int:
        if 1 in self.block_shape:
            return CyclicLatin(side=self.size).support()
        return math.factorial(self.size) * CYCLIC[self.block_shape]

    def members(self) -> Tensor:
        grids = super().members()
        return grids[torch.from_numpy(is_cyclic(grids.numpy().astype(np.uint8)))]
