from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import twoclocks as tc
from twoclocks.core.errors import SettingError
from twoclocks.data import DataSettings, cube_set, held_out, holdout_set, training_set
from twoclocks.rules import CyclicLatin, CyclicSudoku, Latin, Parity, RowLatin, Rule, Sudoku


@pytest.mark.parametrize(
    ("length", "group", "n", "digest"),
    [
        (36, 3, 512, "6e34aa6730253a19d899a370cb054f57"),
        (24, 2, 32, "12af4ddcd7ff8f0878965510de073718"),
        (36, 36, 100, "4a5444bd2f7d87ae1ce9e060aef3e82f"),
    ],
)
def test_training_sets_are_the_same_on_every_machine(length: int, group: int, n: int, digest: str) -> None:
    train = training_set(Parity(length=length, group=group), n=n, seed=0)
    assert hashlib.sha256(train.numpy().astype("<i8").tobytes()).hexdigest()[:32] == digest


@given(st.integers(2, 64), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_unique_valid_and_disjoint_up_to_the_whole_valid_set(n: int, seed: int) -> None:
    rule = Parity(length=9, group=3)  # 64 valid samples
    train = training_set(rule, n, seed)
    assert len({tuple(row) for row in train.tolist()}) == n
    assert bool(rule.is_valid(train).all())
    if n < 64:
        rest = held_out(rule, train, 64 - n, seed)
        assert {tuple(r) for r in train.tolist()}.isdisjoint({tuple(r) for r in rest.tolist()})
        assert bool(rule.is_valid(rest).all())


def test_a_smaller_set_begins_a_larger_one() -> None:
    rule = Parity(length=36, group=3)
    assert torch.equal(training_set(rule, 1000, seed=3)[:100], training_set(rule, 100, seed=3))


def test_a_generator_that_misses_what_it_promises_is_named_not_waited_for() -> None:
    class Lame(Parity):
        def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:  # type: ignore[type-arg]
            return super().draw(n, rng) * [1, 1, 0, 0]

    with pytest.raises(RuntimeError, match=r"draw\(\) reaches 2 samples, support\(\) promises 4"):
        training_set(Lame(length=4, group=2), 3)


def test_cube_set_draws_every_symbol_alike() -> None:
    x = cube_set(Sudoku(), 5_000, seed=0)
    assert chisquare(torch.bincount(x.flatten(), minlength=6).numpy()).pvalue > 1e-4


def test_held_out_rows_know_repeated_training_rows_and_full_ones() -> None:
    rule = Parity(length=4, group=2)  # 4 valid samples
    train = training_set(rule, 3)
    assert len(held_out(rule, torch.cat([train, train, train]), 1)) == 1
    with pytest.raises(SettingError, match="contains all samples of the rule"):
        held_out(rule, rule.enumerate(), 1)


def test_cube_set_is_uniform_and_mostly_invalid() -> None:
    rule = Parity(length=36, group=3)
    x = cube_set(rule, 20_000, seed=0)
    assert abs(float(x.double().mean()) - 0.5) < 0.002
    assert float(rule.is_valid(x).double().mean()) < 0.002


@pytest.mark.parametrize("n", [0, 1, 65, -3, 2.5])
def test_impossible_sizes_are_refused(n: int) -> None:
    with pytest.raises(SettingError, match="n: "):
        tc.data.training_set(Parity(length=9, group=3), n=n)


def test_holdout_sets_are_as_large_as_the_training_set_and_apart_from_it_and_from_held_out_rows() -> None:
    rule = Parity(length=9, group=3)  # 64 samples
    train = training_set(rule, 32, seed=1)
    holdout = holdout_set(rule, train, seed=1)
    assert holdout is not None and rule.is_valid(holdout).all()
    assert len({tuple(row) for row in torch.cat([train, holdout]).tolist()}) == 64
    assert holdout_set(rule, training_set(rule, 33, seed=1), seed=1) is None
    large = Parity(length=36, group=3)
    train = training_set(large, 50, seed=1)
    drawn = [holdout_set(large, train, seed=1), holdout_set(large, train, seed=2), held_out(large, train, 50, seed=1)]
    assert len({tuple(row) for rows in drawn if rows is not None for row in rows.tolist()}) == 150
    assert torch.equal(drawn[0], holdout_set(large, train, seed=1))


@pytest.mark.parametrize("rule", [Latin(side=4), CyclicLatin(side=5), Sudoku(), CyclicSudoku()], ids=str)
def test_a_transposed_set_is_the_transpose_of_the_set_of_the_transposed_rule(rule: Rule) -> None:
    """A Latin square is transposed to a Latin square; blocks of 2×3 become blocks of 3×2."""
    other = rule.transposed()
    assert other is not None and other.transposed() == rule and other.count() == rule.count()
    plain = training_set(rule, 60, seed=3, part=1)
    turned = training_set(other, 60, seed=3, part=1, transposed=True)
    assert torch.equal(turned, plain.transpose(1, 2)) and turned.is_contiguous()
    assert bool(other.is_valid(turned).all()) and not torch.equal(turned, training_set(other, 60, seed=3, part=1))
    assert torch.equal(DataSettings(n=60, seed=3, part=1, transposed=True).training_set(other), turned)
    swapped = other.parts_valid(turned)["column"], rule.parts_valid(plain)["row"]
    assert torch.equal(*swapped)


def test_blocks_that_are_not_square_turn() -> None:
    rule = Sudoku(block_rows=2, block_cols=3)
    assert rule.transposed() == Sudoku(block_rows=3, block_cols=2)
    assert not bool(rule.is_valid(training_set(rule, 50).transpose(1, 2)).all())
    assert bool(rule.is_valid(training_set(rule, 50, transposed=True)).all())


@pytest.mark.parametrize("rule", [Parity(length=9, group=3), RowLatin(side=4)], ids=str)
def test_rules_that_change_when_transposed_are_refused(rule: Rule) -> None:
    with pytest.raises(SettingError, match=r"transposed: True is not allowed; .*use latin, sudoku"):
        training_set(rule, 4, transposed=True)


def test_sets_of_part_1_are_disjoint_over_sizes_that_double() -> None:
    """Part 1 of size n are the rows n to 2n of one stream; sets of part 0 are nested instead."""
    rule = Parity(length=36, group=3)
    sizes = (64, 128, 256, 1024)
    rows = [tuple(row) for n in sizes for row in training_set(rule, n, seed=1, part=1).tolist()]
    assert len(set(rows)) == len(rows) == sum(sizes)
    nested = [{tuple(row) for row in training_set(rule, n, seed=1).tolist()} for n in sizes]
    assert all(small < large for small, large in itertools.pairwise(nested))
    close = [{tuple(row) for row in training_set(rule, n, seed=1, part=1).tolist()} for n in (64, 100)]
    assert len(close[0] & close[1]) == 28  # rows 100 to 127 are in both: less than a factor of two apart
