"""A Markov chain over Sudoku grids too large to list: erase two lines or two symbols, refill them uniformly.

Two rows of a band can be refilled only by swapping their entries in some columns, and columns that share a symbol must
be swapped together. The same holds for two columns of a stack, and for two symbols, row by row. Each such connected
component is swapped with probability 1/2. This is an exact draw from the uniform distribution given everything else
(heat bath), so the uniform distribution is stationary. That every grid can be reached was checked by listing, for
blocks of 2×2 and 2×3 only; for larger blocks it is not proven.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twoclocks.rules.grids import Grids, permute, random_permutations, relabel

Flags = npt.NDArray[np.bool_]


def sweep_count(side: int) -> int:
    """Number of sweeps per sample; one sweep refills two rows, two columns and two symbols."""
    return 2 * side**2


def base_grid(block_rows: int, block_columns: int) -> Grids:
    """One valid grid: each row is the row above shifted by a block's width, and each band is shifted by one more."""
    side = block_rows * block_columns
    row, column = np.arange(side)[:, None], np.arange(side)
    return ((block_columns * (row % block_rows) + row // block_rows + column) % side).astype(np.uint8)


def random_walk(n: int, block_rows: int, block_columns: int, sweeps: int, rng: np.random.Generator) -> Grids:
    """Draw n grids (n, side, side) by independent chains that start at randomly permuted copies of one valid grid."""
    side = block_rows * block_columns
    grids = relabel(np.repeat(base_grid(block_rows, block_columns)[None], n, axis=0), random_permutations(n, side, rng))
    grids = permute(grids, 1, nested_permutations(n, side, block_rows, rng))
    grids = permute(grids, 2, nested_permutations(n, side, block_columns, rng))
    for _ in range(sweeps):
        refill_rows(grids, block_rows, rng)
        refill_rows(grids.transpose(0, 2, 1), block_columns, rng)
        refill_symbols(grids, block_rows, block_columns, rng)
    return grids


def nested_permutations(n: int, side: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Random permutations (n, side) of the groups of ``size`` lines, and of the lines within each group."""
    groups = side // size
    outer = random_permutations(n, groups, rng).astype(np.int64)
    inner = random_permutations(n * groups, size, rng).reshape(n, groups, size)
    return (outer[:, :, None] * size + inner).reshape(n, side)


def refill_rows(grids: Grids, band: int, rng: np.random.Generator) -> None:
    """Refill two random rows of a random band, in place."""
    if band < 2:
        return
    n, side, _ = grids.shape
    chains = np.arange(n)
    pair = random_permutations(n, band, rng)[:, :2] + band * rng.integers(0, side // band, size=(n, 1))
    top, bottom = grids[chains, pair[:, 0]], grids[chains, pair[:, 1]]  # (n, side)
    swap = random_components(top[:, :, None] == bottom[:, None, :], rng)
    grids[chains, pair[:, 0]] = np.where(swap, bottom, top)
    grids[chains, pair[:, 1]] = np.where(swap, top, bottom)


def refill_symbols(grids: Grids, block_rows: int, block_columns: int, rng: np.random.Generator) -> None:
    """Refill two random symbols, in place: rows that would conflict swap them together."""
    n, side, _ = grids.shape
    pair = random_permutations(n, side, rng)[:, :2]
    at = [(grids == pair[:, k, None, None]).argmax(axis=2) for k in (0, 1)]  # column of the symbol in each row
    block = [np.arange(side) // block_rows * side + column // block_columns for column in at]
    conflict = (at[0][:, :, None] == at[1][:, None, :]) | (block[0][:, :, None] == block[1][:, None, :])
    swap = random_components(conflict, rng)
    chains, rows = np.arange(n)[:, None], np.arange(side)
    grids[chains, rows, at[0]] = np.where(swap, pair[:, 1:], pair[:, :1])
    grids[chains, rows, at[1]] = np.where(swap, pair[:, :1], pair[:, 1:])


def random_components(linked: Flags, rng: np.random.Generator) -> Flags:
    """Choose each connected component of each graph (n, nodes, nodes) with probability 1/2: bool (n, nodes)."""
    n, nodes, _ = linked.shape
    reach = (linked | linked.transpose(0, 2, 1) | np.eye(nodes, dtype=bool)).astype(np.float32)
    for _ in range(int(nodes - 1).bit_length()):
        reach = np.minimum(reach @ reach, 1)
    first = (reach > 0).argmax(axis=2)  # the smallest node of the component names it
    coins = rng.integers(0, 2, size=(n, nodes), dtype=np.uint8)
    heads: Flags = np.take_along_axis(coins, first, axis=1) == 1
    return heads
