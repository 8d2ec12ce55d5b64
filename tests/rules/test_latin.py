"""Latin squares: known counts, uniform samples from both samplers, and what the cyclic generator misses."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from twoclocks.core.rows import row_keys
from twoclocks.data import cube_set
from twoclocks.rules import CyclicLatin, Latin, RowLatin, Rule
from twoclocks.rules.grids import Grids, cyclic_square
from twoclocks.rules.jacobson_matthews import random_walk, walk_length
from twoclocks.rules.latin import is_cyclic, reduced_squares
from twoclocks.testing import check_rule

TOTALS = [1, 2, 12, 576, 161_280, 812_851_200, 61_479_419_904_000, 108_776_032_459_082_956_800]  # OEIS A002860


def test_counts() -> None:
    assert [Latin(side=side).count() for side in range(1, 9)] == TOTALS
    assert [len(reduced_squares(side)) for side in range(1, 7)] == [1, 1, 1, 4, 56, 9408]
    assert Latin(side=10).count() == 9_982_437_658_213_039_871_725_064_756_920_320_000
    assert Latin(side=11).count() == 776_966_836_171_770_144_107_444_346_734_230_682_311_065_600_000
    assert RowLatin(side=6).count() == 139_314_069_504_000_000


@pytest.mark.parametrize("side", [1, 2, 3])
def test_contract_at_the_smallest_sides(side: int) -> None:
    for rule in (Latin(side=side), CyclicLatin(side=side), RowLatin(side=side)):
        check_rule(rule)


def slow(grid: list[list[int]], columns: bool) -> bool:
    symbols = set(range(len(grid)))
    lines = grid + ([list(column) for column in zip(*grid, strict=True)] if columns else [])
    return all(set(line) == symbols for line in lines)


@pytest.mark.parametrize(("rule", "columns"), [(Latin(side=3), True), (RowLatin(side=3), False)], ids=repr)
def test_validity_equals_a_slow_definition(rule: Rule, columns: bool) -> None:
    x = torch.cat([cube_set(rule, 3000, 0), RowLatin(side=3).sample(300, 0), Latin(side=3).sample(30, 0)])
    assert rule.is_valid(x).tolist() == [slow(grid, columns) for grid in x.tolist()]


def test_swapping_two_entries_of_a_row_breaks_two_columns_and_no_row() -> None:
    rule = Latin(side=6)
    x = rule.sample(50, 0)
    x[:, 2, [0, 3]] = x[:, 2, [3, 0]]
    parts = rule.parts_valid(x)
    assert bool(parts["row"].all()) and not bool(rule.is_valid(x).any())
    assert parts["column"].int().sum(dim=1).tolist() == [4] * 50
    assert bool(RowLatin(side=6).is_valid(x).all())


@pytest.mark.parametrize("side", [3, 4])
def test_samples_are_uniform(side: int) -> None:
    rule = Latin(side=side)
    observed = torch.unique(rule.sample(100 * rule.count(), seed=2), dim=0, return_counts=True)[1]
    assert len(observed) == rule.count() and chisquare(observed.numpy()).pvalue > 1e-4


def test_samples_of_side_5_are_uniform_over_all_161280() -> None:
    keys = row_keys(Latin(side=5).sample(2_000_000, seed=3), 5)
    observed = np.unique(keys, return_counts=True)[1]
    missed = 161_280 - len(observed)  # 12.4 draws each: e^−12.4 of them, 0.7 squares, are missed by chance
    assert 0 <= missed < 8
    assert chisquare(np.append(observed, np.zeros(missed))).pvalue > 1e-4


@pytest.mark.parametrize(("side", "walks"), [(3, 3000), (4, 12_000)])
def test_walks_of_jacobson_and_matthews_are_uniform_from_a_fixed_start(side: int, walks: int) -> None:
    start = np.broadcast_to(cyclic_square(side), (walks, side, side))
    found = random_walk(start, walk_length(side), np.random.default_rng(0))
    observed = np.unique(found.reshape(walks, -1), axis=0, return_counts=True)[1]
    assert len(observed) == Latin(side=side).count() and chisquare(observed).pvalue > 1e-4


def intercalates(squares: Grids) -> np.ndarray:
    """Number of 2×2 subsquares of each square: an invariant of the isotopy class, which walks must mix."""
    n, side, _ = squares.shape
    found = np.zeros(n, dtype=int)
    for a in range(side):
        for b in range(a):
            for c in range(side):
                for d in range(c):
                    found += (squares[:, a, c] == squares[:, b, d]) & (squares[:, a, d] == squares[:, b, c])
    return found


@pytest.mark.parametrize("side", [5, 6])
def test_walks_agree_with_the_exact_sampler_on_an_invariant(side: int) -> None:
    """From the cyclic square alone, whose class is 11% (side 5) or 0.6% (side 6) of all squares."""
    start = np.broadcast_to(cyclic_square(side), (2000, side, side))
    walked = intercalates(random_walk(start, walk_length(side), np.random.default_rng(1)))
    exact = intercalates(Latin(side=side).sample(20_000, seed=0).numpy().astype(np.uint8))
    common = [value for value in np.unique(exact) if (exact == value).mean() > 0.005]
    table = [[(sample == value).sum() for value in common] for sample in (walked, exact)]
    assert chi2_contingency(table).pvalue > 1e-3
    started = intercalates(cyclic_square(side)[None])[0]
    assert (walked == started).mean() < 0.5  # the walks have left the class they came from


def test_large_squares_are_walked() -> None:
    """The cyclic square of side 7 has no 2×2 subsquare; a uniform one has 10.6 on average (log)."""
    rule = Latin(side=7)
    x = rule.sample(300, seed=0)
    assert bool(rule.is_valid(x).all()) and len(torch.unique(x, dim=0)) == 300
    squares = x.numpy().astype(np.uint8)
    assert is_cyclic(squares).mean() < 0.05
    found = intercalates(squares)
    assert found.mean() == pytest.approx(10.6, abs=4 * found.std() / math.sqrt(300))


def test_the_cyclic_generator_reaches_exactly_one_isotopy_class() -> None:
    assert [CyclicLatin(side=side).support() for side in range(1, 7)] == [1, 2, 12, 432, 17_280, 5_184_000]
    rule = CyclicLatin(side=5)
    drawn = np.unique(row_keys(rule.sample(400_000, 0), 5))
    assert len(drawn) == 17_280 and set(drawn.tolist()) == set(row_keys(rule.enumerate(), 5).tolist())
    assert bool(rule.is_valid(Latin(side=5).sample(100, 0)).all())  # validity is that of all Latin squares


def test_isotopy_to_the_cyclic_square_equals_a_slow_search() -> None:
    cyclic = cyclic_square(4)
    orbit = {
        tuple(np.array(names)[cyclic[np.ix_(rows, columns)]].ravel().tolist())
        for rows in permutations(range(4))
        for columns in permutations(range(4))
        for names in permutations(range(4))
    }
    squares = Latin(side=4).enumerate()
    expected = [tuple(square.flatten().tolist()) in orbit for square in squares]
    assert is_cyclic(squares.numpy().astype(np.uint8)).tolist() == expected
    assert sum(expected) == 432 == math.factorial(4) ** 3 // (16 * 2)
