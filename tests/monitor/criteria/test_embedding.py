"""Embeddings: batches, cosines, symmetries, texts, and functions that return something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria.base import CRITERIA
from twoclocks.monitor.criteria.embedding import Embedding
from twoclocks.monitor.training_set import TrainingSet

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 4, 4)).astype(np.float32)
WEIGHTS = RNG.normal(size=(16, 12))


def project(rows: Any) -> Any:
    return rows.reshape(len(rows), -1) @ WEIGHTS


def test_equal_to_the_cosines_of_all_pairs() -> None:
    samples = RNG.normal(size=(15, 4, 4)).astype(np.float32)
    found = Embedding(project, 0.6).matcher(TrainingSet(ROWS))(samples)
    ours, theirs = project(samples), project(ROWS)
    table = ours @ theirs.T / np.linalg.norm(ours, axis=1)[:, None] / np.linalg.norm(theirs, axis=1)
    assert found.rows.tolist() == table.argmax(1).tolist()
    np.testing.assert_allclose(found.distances, 1 - table.max(1), atol=1e-12)
    assert found.copied.tolist() == (table.max(1) > 0.6).tolist() and 0 < found.copied.sum() < 15


def test_training_rows_are_embedded_once_in_batches() -> None:
    sizes: list[int] = []

    def counted(rows: Any) -> Any:
        sizes.append(len(rows))
        return project(rows)

    match = Embedding(counted, batch=16).matcher(TrainingSet(ROWS))
    assert sizes == [16, 16, 8]
    match(ROWS[:3])
    assert match(ROWS[:20]).rows.tolist() == list(range(20))
    assert sizes == [16, 16, 8, 3, 16, 4]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_torch_network_runs_without_gradients(dtype: torch.dtype) -> None:
    network = torch.nn.Linear(16, 8, dtype=dtype)
    seen: list[bool] = []

    def function(rows: Any) -> Any:
        result = network(torch.from_numpy(rows).reshape(len(rows), -1).to(dtype))
        seen.append(result.requires_grad)
        return result

    found = Embedding(function, 0.99).matcher(TrainingSet(ROWS))(ROWS[3:6])
    assert found.copied.all() and found.rows.tolist() == [3, 4, 5] and not any(seen)


def test_forms_of_symmetries_are_embedded_too() -> None:
    flipped = ROWS[7:8, :, ::-1]
    assert not Embedding(project, 0.95).matcher(TrainingSet(ROWS))(flipped).copied.any()
    found = Embedding(project, 0.95).matcher(TrainingSet(ROWS, ["flip"]))(flipped)
    assert found.copied.all() and found.rows.tolist() == [7]


def test_texts() -> None:
    def letters(texts: list[str]) -> Any:
        return np.array([[text.count(letter) for letter in "abc"] for text in texts])

    found = Embedding(letters, 0.99).matcher(TrainingSet(["aab", "bcc", "b"]))(["baa baa", "abc"])
    assert found.copied.tolist() == [True, False] and found.rows[0] == 0


def with_one(value: float) -> Callable[[Any], Any]:
    def function(rows: Any) -> Any:
        result = project(rows)
        result[-1] = value
        return result

    return function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (with_one(np.nan), "NaN"),
        (with_one(np.inf), "infinity"),
        (with_one(0), "zeros"),
        (lambda rows: project(rows)[1:], r"shape \(40, features\)"),
        (lambda rows: project(rows)[0], r"shape \(40, features\)"),
        (lambda rows: np.zeros((len(rows), 0)), r"shape \(40, features\)"),
        (lambda rows: np.full((len(rows), 2), "a"), r"shape \(40, features\)"),
    ],
)
def test_functions_that_return_something_else_are_refused(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Embedding(function).matcher(TrainingSet(ROWS))


def test_another_number_of_features_is_refused() -> None:
    with pytest.raises(UserError, match="same number"):
        Embedding(lambda rows: np.ones((len(rows), len(rows))), batch=30).matcher(TrainingSet(ROWS))
    match = Embedding(lambda rows: np.ones((len(rows), len(rows)))).matcher(TrainingSet(ROWS))
    with pytest.raises(UserError, match="3 features of the samples, 40 of the training rows"):
        match(ROWS[:3])


def test_by_name_alone_it_says_what_is_missing() -> None:
    with pytest.raises(UserError, match=r"Embedding\(function\)"):
        CRITERIA.get("embedding")()


def test_settings_and_name() -> None:
    assert Embedding(project).name == "copies by project with a cosine above 0.5"
    assert Embedding(project, 0.7, name="SSCD").name == "copies by SSCD with a cosine above 0.7"
    assert Embedding(project, 0.7) == Embedding(project, 0.7) != Embedding(project, 0.6)
    with pytest.raises(UserError, match="cosine_above"):
        Embedding(project, 1.5)
    with pytest.raises(UserError, match="batch"):
        Embedding(project, batch=0)


def test_a_function_that_changes_what_it_gets_changes_neither_rows_nor_samples() -> None:
    def careless(values: np.ndarray) -> np.ndarray:
        values -= 100
        return values.reshape(len(values), -1)

    train = np.random.default_rng(0).normal(size=(20, 8))
    samples, before = train[:5].copy(), train.copy()
    monitor = tc.Monitor(train, copies=Embedding(careless))
    monitor.observe(1, samples)
    assert np.array_equal(samples, before[:5]) and np.array_equal(monitor.train.values, before)
