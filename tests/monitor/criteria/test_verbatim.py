"""Verbatim runs: what counts as a run, where it lies, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria.base import CRITERIA
from twoclocks.monitor.criteria.verbatim import Verbatim, VerbatimMatcher
from twoclocks.monitor.training_set import TrainingSet

TEXTS = ["the quick brown fox jumps over the lazy dog", "a b c d e f", "x y z", "quick brown bears"]


def prepared(tokens: int = 3, texts: object = None) -> VerbatimMatcher:
    return Verbatim(tokens).matcher(TrainingSet(TEXTS if texts is None else texts))


def test_run_at_the_beginning_the_end_and_inside_of_a_text() -> None:
    samples = ["the quick brown bear", "he said over the lazy dog", "so c d e then", "quick brown", "b c dd"]
    found = prepared()(samples)
    assert found.copied.tolist() == [True, True, True, False, False]
    assert found.rows.tolist()[:3] == [0, 0, 1] and found.rows[4] == 1
    assert found.distances.tolist() == [1, 2, 2, 0, 1]


def test_where_the_run_lies() -> None:
    runs = prepared().longest_runs(["the quick brown bear", "he said over the lazy dog", "so c d e then"])
    assert runs.lengths.tolist() == [3, 4, 3]
    assert runs.starts.tolist() == [0, 2, 1]
    assert runs.texts.tolist() == [0, 0, 1]
    assert runs.text_starts.tolist() == [0, 5, 2]


def test_a_run_does_not_cross_two_texts_nor_two_samples() -> None:
    match = prepared()
    assert not match(["e f x y", "a b", "c d"]).copied.any()
    assert match.longest_runs(["e f x y", "a b", "c d"]).lengths.tolist() == [2, 2, 2]


def test_the_threshold_is_the_least_length_of_a_copy() -> None:
    sample = ["a b c d q"]
    assert prepared(4)(sample).copied.all() and not prepared(5)(sample).copied.any()


def test_short_empty_and_unknown_samples_are_no_copies() -> None:
    found = prepared()(["x y", "", "unknown words only here", "Quick Brown Fox"])
    assert not found.copied.any()
    assert found.rows.tolist() == [2, -1, -1, -1]
    assert found.distances.tolist() == [0, 0, 4, 3]


def test_repeated_and_nested_texts() -> None:
    match = prepared(texts=["a b c a b c a b c", "a b c a b c", "a b c a b c a b c"])
    runs = match.longest_runs(["a b c a b c a b c", "c a b c a"])
    assert runs.lengths.tolist() == [9, 5] and runs.texts[0] == 0 and runs.text_starts[0] == 0


def test_token_ids_of_any_length_and_arrays_find_the_same() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 50, (20, 12))
    samples = rng.integers(0, 50, (5, 12))
    samples[2, 4:9] = rows[7, 1:6]
    array = prepared(5, rows)(samples)
    ragged = prepared(5, [*map(tuple, rows.tolist()), (99,)])([tuple(sample) for sample in samples.tolist()])
    assert array.copied.tolist() == ragged.copied.tolist() == [False, False, True, False, False]
    assert array.rows[2] == ragged.rows[2] == 7
    assert array.distances.tolist() == ragged.distances.tolist() and array.distances[2] == 7


def test_rows_are_indices_of_distinct_texts() -> None:
    train = TrainingSet(["a b c", "a b c", "d e f"])
    found = Verbatim(3).matcher(train)(["d e f"])
    assert train.original[found.rows].tolist() == [2]


def test_padding_is_never_copied() -> None:
    rows = np.array([[1, 2, 3, 0, 0, 0, 0], [4, 5, 6, 7, 0, 0, 0]])
    samples = np.array([[8, 9, 0, 0, 0, 0, 0], [9, 4, 5, 6, 0, 0, 0]])
    with_padding = Verbatim(3).matcher(TrainingSet(rows))(samples)
    assert with_padding.copied.tolist() == [True, True]
    without = Verbatim(3, padding=0).matcher(TrainingSet(rows))(samples)
    assert without.copied.tolist() == [False, True] and without.distances.tolist() == [2, 1]
    assert Verbatim(3, padding=0).name != Verbatim(3).name


def test_other_scripts_by_words_and_by_characters() -> None:
    words = prepared(3, ["Το γρήγορο καφέ αλεπού πηδά", "быстрая коричневая лиса прыгает", "سريع بني ثعلب يقفز"])
    found = words(["и коричневая лиса прыгает", "الثعلب بني ثعلب يقفز", "γρήγορο καφέ σκύλος"])
    assert found.copied.tolist() == [True, True, False] and found.rows.tolist() == [1, 2, 0]
    train = TrainingSet(["敏捷的棕色狐狸跳过了懒狗", "いろはにほへと"])
    with pytest.raises(UserError, match="split=list"):  # one word each: no sample could ever be a copy
        Verbatim(3).matcher(train)
    characters = Verbatim(4, split=list).matcher(train)
    assert characters(["一只棕色狐狸", "いろはに", "懒狗跳过"]).copied.tolist() == [True, True, False]


def test_a_symmetry_of_token_ids_counts_as_the_same_row() -> None:
    rows = np.arange(12).reshape(2, 6)
    sample = rows[1:, ::-1]
    assert not Verbatim(4).matcher(TrainingSet(rows))(sample).copied.any()
    found = Verbatim(4).matcher(TrainingSet(rows, [lambda values: values[:, ::-1]]))(sample)
    assert found.copied.tolist() == [True] and found.rows.tolist() == [1]


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="tokens: 0"):
        Verbatim(0)
    with pytest.raises(UserError, match="at most 9 tokens"):
        prepared(10)
    with pytest.raises(UserError, match=r"samples: text 0 has token ids, the training set has strings"):
        prepared()([(1, 2, 3)])
    with pytest.raises(UserError, match=r"\(n, length\)"):
        Verbatim(1).matcher(TrainingSet(np.zeros((2, 3, 3), dtype=int)))
    with pytest.raises(UserError, match="floats"):
        Verbatim(1).matcher(TrainingSet(np.ones((2, 3))))


def test_registered_under_its_name() -> None:
    assert CRITERIA.get("verbatim")() == Verbatim(50)
    assert Verbatim(50).name == "copies by a run of 50 tokens"
    assert Verbatim(50, split=list).name == "copies by a run of 50 tokens split by list"
