"""Nearest distances against comparing every pair, and the size of what is formed on the way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from twoclocks.evaluation import Neighbours, nearest_distance, neighbours
from twoclocks.evaluation.neighbours import EXACT


def every_pair(rows: Tensor, train: Tensor) -> list[int]:
    """The slow version: entries that differ, pair by pair."""
    return (rows.flatten(1)[:, None] != train.flatten(1)[None]).sum(dim=2).amin(dim=1).tolist()


def close(symbols: int, width: int, seed: int, n: int = 11, rows: int = 17) -> tuple[Tensor, Tensor]:
    """Training rows, and samples at all distances from them."""
    generator = torch.Generator().manual_seed(seed)
    train = torch.randint(symbols, (rows, width), generator=generator)
    samples = train[torch.randint(rows, (n,), generator=generator)].clone()
    changed = torch.rand(n, width, generator=generator) < torch.rand(n, 1, generator=generator)
    samples[changed] = torch.randint(symbols, (int(changed.sum()),), generator=generator)
    return train, samples


@given(st.integers(2, 300), st.integers(1, 90), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_distances_are_what_comparing_every_pair_finds(symbols: int, width: int, seed: int) -> None:
    train, samples = close(symbols, width, seed)
    found = Neighbours(train, symbols).distance(samples)
    assert found.dtype == torch.int64 and found.tolist() == every_pair(samples, train)
    assert nearest_distance(samples, train).tolist() == found.tolist()


@given(st.sampled_from([2, 3, 130]), st.integers(1, 12), st.integers(1, 12), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
@pytest.mark.slow
def test_tiles_do_not_matter_and_bound_what_is_formed(
    symbols: int, side: int, entries: int, width: int, seed: int
) -> None:
    """Whatever the number of rows and entries: no factor and no product is larger than a tile."""
    train, samples = close(symbols, width, seed, n=31, rows=43)
    factors: list[int] = []
    products: list[int] = []

    def counted(left: Tensor, right: Tensor, **kept: Any) -> Tensor:
        factors.extend((left.numel(), right.numel()))
        products.append(len(left) * right.shape[1])
        return multiply(left, right, **kept)

    multiply = torch.mm
    columns = 1 if symbols == 2 else symbols
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(neighbours.SIDES, "cpu", side)
        patch.setattr(neighbours, "INDICATORS", side * columns * entries)
        patch.setattr(torch, "mm", counted)
        found = Neighbours(train, symbols).distance(samples)
    assert found.tolist() == every_pair(samples, train)
    assert max(products) <= side**2 and max(factors) <= side * columns * entries


def test_more_symbols_than_a_factor_has_columns_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "INDICATORS", 64)
    train, samples = close(300, 5, seed=0)
    assert Neighbours(train, 300).side == 1
    assert Neighbours(train, 300).distance(samples).tolist() == every_pair(samples, train)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("symbols", [2, 3])
def test_rows_longer_than_half_precision_counts_are_exact(symbols: int, dtype: torch.dtype) -> None:
    """The products of a GPU, here on the CPU: 2·EXACT + 1 equal entries lie beyond what float16 can hold."""
    train, samples = close(symbols, 2 * EXACT + 1, seed=1, n=5, rows=4)
    samples[0] = train[0]
    samples[1] = train[1]
    samples[1, 7] = (samples[1, 7] + 1) % symbols
    found = Neighbours(train, symbols)
    found.dtype = dtype
    assert found.distance(samples).tolist() == every_pair(samples, train)
    assert found.distance(samples)[:2].tolist() == [0, 1]


def test_half_precision_holds_every_partial_sum() -> None:
    whole = torch.arange(-EXACT, EXACT + 1)
    assert torch.equal(whole.half().long(), whole)
    assert int(torch.tensor(EXACT + 1).half()) != EXACT + 1


@pytest.mark.parametrize("symbols", [2, 5, 200])
def test_what_is_no_symbol_differs_from_all(symbols: int) -> None:
    train, samples = close(symbols, 9, seed=2)
    samples[0, 3], samples[1, 0], samples[2, 8], samples[3, 1] = symbols, -1, symbols + 256, 2**40
    samples[4, :4], samples[5] = -1, symbols
    assert Neighbours(train, symbols).distance(samples).tolist() == every_pair(samples, train)
    with pytest.raises(ValueError, match="outside"):
        Neighbours(train + 1, symbols)


def test_shapes_and_nothing() -> None:
    train, samples = close(4, 12, seed=3)
    assert Neighbours(torch.zeros(1, 9), 2).distance(torch.ones(1, 9)).tolist() == [9]  # nothing in common
    found = Neighbours(train.reshape(-1, 3, 4), 4)
    assert found.distance(samples.reshape(-1, 3, 4)).tolist() == every_pair(samples, train)
    assert found.distance(samples[:0]).shape == (0,)
    assert nearest_distance(torch.zeros(2, 3).long(), torch.zeros(4, 3).long()).tolist() == [0, 0]
    with pytest.raises(ValueError, match="entries"):
        found.distance(samples[:, :6])
    with pytest.raises(ValueError, match="without rows"):
        Neighbours(train[:0], 4)
