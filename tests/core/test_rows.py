"""Keys of rows against plain tuples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twoclocks.core.rows import is_member, row_keys


@given(st.integers(2, 40), st.integers(1, 90), st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_keys_are_equal_exactly_when_rows_are(symbols: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.integers(0, symbols, size=(12, width)))
    other = rows.clone()
    other[3, rng.integers(width)] = (other[3, 0] + 1) % symbols
    slow = [tuple(r) in {tuple(o) for o in other.tolist()} for r in rows.tolist()]
    assert is_member(rows, other, symbols).tolist() == slow


def test_keys_refuse_symbols_out_of_range() -> None:
    with pytest.raises(ValueError, match="outside"):
        row_keys(torch.tensor([[0, 2]]), symbols=2)
