"""The search for the largest cosine, against all pairs in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twoclocks.monitor import cosine
from twoclocks.monitor.cosine import CosineSearch, product_error, unit


def of_all_pairs(samples: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    table = np.array([[float(a @ b) for b in unit(rows)] for a in unit(samples)])
    return table.argmax(1), table.max(1)


def close_rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Samples and rows in one narrow direction: float32 cannot tell which row is the most similar one."""
    centre = rng.normal(size=64)
    return centre + 1e-4 * rng.normal(size=(30, 64)), centre + 1e-4 * rng.normal(size=(200, 64))


@pytest.mark.parametrize("tile", [64, 1 << 12, 1 << 24])
@pytest.mark.parametrize("close", [False, True])
def test_equal_to_all_pairs(tile: int, close: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    samples, rows = close_rows(rng) if close else (rng.normal(size=(30, 64)), rng.normal(size=(200, 64)))
    monkeypatch.setattr(cosine, "TILE", tile)
    found, values = CosineSearch([rows.__getitem__], len(rows), 64).search(samples)
    expected, best = of_all_pairs(samples, rows)
    assert found.tolist() == expected.tolist()
    np.testing.assert_allclose(values, best, rtol=0, atol=1e-14)


def test_float32_alone_would_be_wrong() -> None:
    """The test above on close rows can fail: without the second comparison other rows are found."""
    samples, rows = close_rows(np.random.default_rng(0))
    product = unit(samples).astype(np.float32) @ unit(rows).astype(np.float32).T
    assert (product.argmax(1) != of_all_pairs(samples, rows)[0]).any()


def test_rows_that_are_not_held_and_several_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    samples, rows = rng.normal(size=(20, 8)), rng.normal(size=(50, 8))
    monkeypatch.setattr(cosine, "PIECE", 7)
    monkeypatch.setattr(cosine, "KEPT", 7 * 8)  # only the first part
    search = CosineSearch([rows.__getitem__, lambda indices: rows[indices][:, ::-1]], 50, 8)
    assert len(search.kept) == 1
    found, values = search.search(samples)
    expected, best = of_all_pairs(samples, np.concatenate([rows, rows[:, ::-1]]))
    assert found.tolist() == (expected % 50).tolist() and (expected >= 50).any()
    np.testing.assert_allclose(values, best, rtol=0, atol=1e-14)


@pytest.mark.parametrize("piece", [1, 2, 4])
def test_the_first_of_equal_rows_is_found(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosine, "PIECE", piece)
    rows = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])  # powers of two: equal to the last bit
    assert CosineSearch([rows.__getitem__], 4, 2).search(np.array([[5.0, 5.0]]))[0].tolist() == [1]


def test_equal_to_all_pairs_inside_autocast() -> None:
    rng = np.random.default_rng(2)
    samples, rows = rng.normal(size=(100, 8)), rng.normal(size=(3000, 8))  # bfloat16 finds other rows
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = CosineSearch([rows.__getitem__], len(rows), 8).search(samples)[0]
    assert found.tolist() == (unit(samples) @ unit(rows).T).argmax(1).tolist()


def test_short_floats_widen_the_second_comparison() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        errors = []
        for precision in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(precision)
            errors.append(product_error())
    finally:
        torch.set_float32_matmul_precision(before)
    assert errors[0] == 0 and errors[1] >= 2 * 2.0**-11 and errors[2] >= 2 * 2.0**-9  # TF32 and bfloat16, two factors


def test_float32_rows_of_large_values() -> None:
    rng = np.random.default_rng(3)
    rows = (1e6 * rng.normal(size=(40, 16))).astype(np.float32)
    found, values = CosineSearch([rows.__getitem__], 40, 16).search(rows * np.float32(3))
    assert found.tolist() == list(range(40))
    np.testing.assert_allclose(values, 1, atol=1e-6)
