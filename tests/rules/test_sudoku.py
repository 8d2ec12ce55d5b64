"""Sudoku: known counts, exactly uniform small grids, walks over large ones, and what the paper's generator misses."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from twoclocks.core.rows import row_keys
from twoclocks.data import cube_set
from twoclocks.rules import CyclicSudoku, Latin, Sudoku, heat_bath
from twoclocks.rules.grids import relabel
from twoclocks.rules.latin import is_cyclic
from twoclocks.rules.sudoku import COUNTS, CYCLIC, ordered_grids


def slow(grid: list[list[int]], block_rows: int, block_cols: int) -> bool:
    side = block_rows * block_cols
    columns = [[row[c] for row in grid] for c in range(side)]
    blocks = [
        [grid[r + i][c + j] for i in range(block_rows) for j in range(block_cols)]
        for r in range(0, side, block_rows)
        for c in range(0, side, block_cols)
    ]
    return all(sorted(part) == list(range(side)) for part in [*grid, *columns, *blocks])


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (2, 2), (3, 3)])
def test_validity_equals_a_slow_definition(shape: tuple[int, int]) -> None:
    rule = Sudoku(block_rows=shape[0], block_cols=shape[1])
    grids = rule.sample(20, 0)
    other = Latin(side=rule.size).sample(60, 0)  # rows and columns fit, blocks rarely do
    x = torch.cat([grids, other, grids.transpose(1, 2), cube_set(rule, 20, 0)])
    expected = [slow(grid, *shape) for grid in x.tolist()]
    assert rule.is_valid(x).tolist() == expected and 20 <= sum(expected) < len(x)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2)])
def test_counts_equal_enumeration(shape: tuple[int, int]) -> None:
    side = shape[0] * shape[1]
    listed = ordered_grids(*shape)
    assert len(np.unique(listed.reshape(len(listed), -1), axis=0)) == len(listed)
    assert len(listed) * math.factorial(side) == Sudoku(block_rows=shape[0], block_cols=shape[1]).count()


def test_counts_of_the_papers() -> None:
    assert Sudoku().count() == 28_200_960 and Latin(side=6).count() / Sudoku().count() == pytest.approx(28.8, abs=0.05)
    assert Sudoku(block_rows=3, block_cols=3).count() == 6_670_903_752_021_072_936_960
    assert Sudoku(block_rows=4, block_cols=2).count() == COUNTS[2, 4]
    assert Sudoku(block_rows=1, block_cols=5).count() == Sudoku(block_rows=5, block_cols=1).count() == 161_280


def test_samples_of_blocks_2_by_2_are_uniform_over_all_288() -> None:
    observed = torch.unique(Sudoku(block_rows=2, block_cols=2).sample(50_000, seed=0), dim=0, return_counts=True)[1]
    assert len(observed) == 288 and chisquare(observed.numpy()).pvalue > 1e-4


@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
def test_samples_of_side_6_are_uniform_up_to_the_names_of_symbols(shape: tuple[int, int]) -> None:
    """28,200,960 grids are too many to count each; renamed so that the first row is in order they are 39,168."""
    grids = Sudoku(block_rows=shape[0], block_cols=shape[1]).sample(1_000_000, seed=1).numpy().astype(np.uint8)
    names = grids[:, 0]
    ordered = relabel(grids, names.argsort(axis=1).astype(np.uint8))
    observed = np.unique(row_keys(ordered, 6), return_counts=True)[1]
    assert len(observed) == 39_168 and chisquare(observed).pvalue > 1e-4
    first_rows = np.unique(row_keys(names, 6), return_counts=True)[1]
    assert len(first_rows) == 720 and chisquare(first_rows).pvalue > 1e-4


def test_heat_bath_is_uniform_where_that_can_be_counted() -> None:
    walked = heat_bath.random_walk(12_000, 2, 2, heat_bath.sweep_count(4), np.random.default_rng(0))
    observed = np.unique(walked.reshape(len(walked), -1), axis=0, return_counts=True)[1]
    assert len(observed) == 288 and chisquare(observed).pvalue > 1e-4


def test_heat_bath_reaches_every_class_of_2_by_3_grids() -> None:
    """Up to the names of symbols; every refill of two lines or two symbols is an edge, and the graph is connected.

    One refill of each pair is tried from every grid; what it reaches is joined, until nothing more joins.
    """
    grids = ordered_grids(2, 3)
    index = {key: place for place, key in enumerate(row_keys(grids, 6).tolist())}
    parent = np.arange(len(grids))
    rng = np.random.default_rng(0)
    for _ in range(30):
        moved = grids.copy()
        heat_bath.refill_rows(moved, 2, rng)
        heat_bath.refill_rows(moved.transpose(0, 2, 1), 3, rng)
        heat_bath.refill_symbols(moved, 2, 3, rng)
        assert bool(Sudoku().is_valid(torch.from_numpy(moved.astype(np.int64))).all())
        ordered = relabel(moved, moved[:, 0].argsort(axis=1).astype(np.uint8))
        reached = np.array([index[key] for key in row_keys(ordered, 6).tolist()])
        for _ in range(40):  # the smaller label wins on both sides, and labels of labels shorten the way
            low = np.minimum(parent, parent[reached])
            np.minimum.at(low, reached, parent)
            low = low[low]
            if (low == parent).all():
                break
            parent = low
    assert len(np.unique(parent)) == 1


def rectangles(grids: np.ndarray) -> np.ndarray:
    """Rectangles with two symbols in their corners: none in the base grid, at which walks start."""
    found = np.zeros(len(grids), dtype=int)
    for a, b in combinations(range(grids.shape[1]), 2):
        for c, d in combinations(range(grids.shape[1]), 2):
            found += (grids[:, a, c] == grids[:, b, d]) & (grids[:, a, d] == grids[:, b, c])
    return found


def test_nine_by_nine_grids_are_walked() -> None:
    """Two-symbol rectangles: 0 at the start, 16.5 after 20 sweeps, 19.6 in the long run (log)."""
    rule = Sudoku(block_rows=3, block_cols=3)
    x = rule.sample(600, seed=0)
    assert bool(rule.is_valid(x).all()) and len(torch.unique(x, dim=0)) == 600
    found = rectangles(x.numpy())
    assert found.mean() == pytest.approx(19.65, abs=4 * found.std() / math.sqrt(600))
    assert rectangles(heat_bath.base_grid(3, 3)[None])[0] == 0


@pytest.mark.parametrize("shape", [(2, 4), (4, 2), (2, 5), (5, 2), (3, 4), (4, 3), (1, 7)])
def test_other_block_shapes(shape: tuple[int, int]) -> None:
    rule = Sudoku(block_rows=shape[0], block_cols=shape[1])
    x = rule.sample(8, seed=0)
    assert all(slow(grid, *shape) for grid in x.tolist()) and len(torch.unique(x, dim=0)) == 8


def test_a_sweep_refills_rows_columns_and_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the size of block that keeps it inside a band or a stack."""
    seen: list[tuple[str, int]] = []
    rows, symbols = heat_bath.refill_rows, heat_bath.refill_symbols
    monkeypatch.setattr(
        heat_bath, "refill_rows", lambda g, band, rng: (seen.append(("lines", band)), rows(g, band, rng))
    )
    monkeypatch.setattr(heat_bath, "refill_symbols", lambda *a: (seen.append(("symbols", 0)), symbols(*a)))
    heat_bath.random_walk(2, 2, 4, 3, np.random.default_rng(0))
    assert seen == 3 * [("lines", 2), ("lines", 4), ("symbols", 0)]


def test_the_papers_generator_is_uniform_over_the_cyclic_grids_alone() -> None:
    rule = CyclicSudoku(block_rows=2, block_cols=2)
    observed = torch.unique(rule.sample(20_000, seed=0), dim=0, return_counts=True)[1]
    assert len(observed) == rule.support() == 192 < rule.count() == 288
    assert chisquare(observed.numpy()).pvalue > 1e-4
    assert CyclicSudoku().support() == 311_040
    for shape in ((2, 2), (2, 3), (3, 2)):  # the table is what enumeration finds
        assert int(is_cyclic(ordered_grids(*shape)).sum()) == CYCLIC[min(shape), max(shape)]
    drawn = np.unique(row_keys(CyclicSudoku().sample(3_000, seed=0), 6))
    assert len(drawn) > 2_950 and bool(Sudoku().is_valid(CyclicSudoku().sample(100, 0)).all())
    assert rule.copy_chance(10) == 10 / 192  # a true sample of this generator, not of all Sudoku grids
