"""The Markov chain of Jacobson & Matthews (1996) over Latin squares; its limit is the uniform distribution.

A square is a cube of zeros and ones, with a one at (row, column, symbol). A move adds one at a cell that is zero and
corrects the lines through it in a 2×2×2 subcube. This may leave a single −1 (an improper square); then the next move
starts there. All proper squares have the same number of moves, and every move can be undone, so the *proper* squares
that the chain visits are uniform in the limit. The length of a chain is therefore counted in proper squares: stopping
at the first proper square after a number of moves would favour squares that follow long sequences of improper ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twoclocks.rules.grids import Grids

Index = npt.NDArray[np.int64]


def walk_length(side: int) -> int:
    """Number of proper squares that a walk visits: side³, one for each cell of the cube."""
    return side**3


def random_walk(start: Grids, length: int, rng: np.random.Generator) -> Grids:
    """Move each square (n, side, side) along a random walk of ``length`` proper squares; all walks run in parallel."""
    n, side, _ = start.shape
    if side < 2:
        return start.copy()
    cubes = (start[..., None] == np.arange(side)).astype(np.int8)  # (n, row, column, symbol)
    cells = np.zeros((n, 3), dtype=np.int64)  # where an improper square has its −1
    proper, visits = np.ones(n, dtype=bool), np.zeros(n, dtype=np.int64)
    while len(walking := np.nonzero(visits < length)[0]):
        cells[walking], proper[walking] = move(cubes, walking, cells[walking], proper[walking], rng)
        visits[walking] += proper[walking]
    squares: Grids = cubes.argmax(axis=3).astype(np.uint8)
    return squares


def move(
    cubes: npt.NDArray[np.int8], which: Index, cells: Index, proper: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Index, npt.NDArray[np.bool_]]:
    """Apply one move to each chosen cube, in place; return the cells that may be −1, and whether squares are proper."""
    side = cubes.shape[1]
    r, c, s = np.where(proper, zero_cells(cubes, which, rng), cells.T)
    line = np.arange(side)
    r2 = random_one(cubes[which[:, None], line, c[:, None], s[:, None]], rng)
    c2 = random_one(cubes[which[:, None], r[:, None], line, s[:, None]], rng)
    s2 = random_one(cubes[which[:, None], r[:, None], c[:, None], line], rng)
    for more in ((r, c, s), (r, c2, s2), (r2, c, s2), (r2, c2, s)):
        cubes[which, *more] += 1
    for less in ((r2, c, s), (r, c2, s), (r, c, s2), (r2, c2, s2)):
        cubes[which, *less] -= 1
    return np.stack([r2, c2, s2], axis=1), cubes[which, r2, c2, s2] >= 0


def zero_cells(cubes: npt.NDArray[np.int8], which: Index, rng: np.random.Generator) -> Index:
    """A random zero cell of each proper cube, as (3, n): any row and column, and any symbol but the one there."""
    side, n = cubes.shape[1], len(which)
    row, column = rng.integers(0, side, size=(2, n))
    here = cubes[which, row, column].argmax(axis=1)
    return np.stack([row, column, (here + rng.integers(1, side, size=n)) % side])


def random_one(lines: npt.NDArray[np.int8], rng: np.random.Generator) -> Index:
    """The position of a random one in each line (n, side); proper lines have one of them, improper lines two."""
    ones = lines == 1
    first = ones.argmax(axis=1)
    last = lines.shape[1] - 1 - ones[:, ::-1].argmax(axis=1)
    chosen: Index = np.where(rng.integers(0, 2, size=len(lines)) == 0, first, last)
    return chosen
