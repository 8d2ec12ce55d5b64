"""Text as data: pieces of documents, held-out documents, membership."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from twoclocks import rules
from twoclocks.core.errors import SettingError
from twoclocks.core.packed_text import LETTERS, Vocabulary, make_packed_text, write_packed_text
from twoclocks.data import training_set
from twoclocks.data.sets import held_out, holdout_set, natural_held_out
from twoclocks.rules.text import Text, digests_of
from twoclocks.testing import check_rule

ORIGIN = {"source": "a test", "options": {}, "skipped": [], "duplicates": []}
VERSES = ["in the beginning was the word", "and the word was with him", "the same was in the beginning", "all of it"]


def packed_file(folder: Path, documents: Sequence[str]) -> str:
    """A packed text of documents in letters and spaces."""
    tokens = [[LETTERS.index(letter) for letter in document] for document in documents]
    starts = np.cumsum([0, *map(len, tokens)])
    joined = np.array([token for document in tokens for token in document])
    path = folder / "text.safetensors"
    write_packed_text(make_packed_text(joined, starts, Vocabulary("letters", LETTERS, 27), ORIGIN), path)
    return str(path)


def slow_pieces(documents: Sequence[str], length: int) -> list[str]:
    """All pieces, cut by hand."""
    return [one[at : at + length] for one in documents for at in range(0, len(one) - length + 1, length)]


def strings(rule: Text, rows: object) -> list[str]:
    return rule.as_text(torch.as_tensor(np.asarray(rows).astype(np.int64)))


def test_pieces_are_cut_from_documents_and_never_cross_two(tmp_path: Path) -> None:
    rule = Text(file=packed_file(tmp_path, VERSES), length=8)
    train, unseen = (strings(rule, one[np.arange(len(one))]) for one in (rule.listed(), rule.unseen()))
    assert sorted(train + unseen) == sorted(set(slow_pieces(VERSES, 8))) and not set(train) & set(unseen)
    assert rule.count() == len(train) + len(unseen) and rule.support() == len(train)
    check_rule(rule)


def test_whole_documents_are_held_out(tmp_path: Path) -> None:
    """No held-out piece is the neighbour of a training piece, whatever the seed of the run."""
    rng = np.random.default_rng(0)
    documents = ["".join(LETTERS[letter] for letter in rng.integers(0, 27, 80)) for _ in range(20)]
    rule = Text(file=packed_file(tmp_path, documents), length=16, held_out=0.25)
    where = {piece: k for k, one in enumerate(documents) for piece in slow_pieces([one], 16)}
    known = {where[piece] for piece in strings(rule, rule.listed()[np.arange(rule.support())])}
    unseen = {where[piece] for piece in strings(rule, rule.unseen()[np.arange(len(rule.unseen()))])}
    assert not known & unseen and len(unseen) == 5 and len(known) == 15
    for seed in (0, 1):
        train = training_set(rule, 16, seed=seed)
        chosen = (
            held_out(rule, train, 8, seed=seed),
            holdout_set(rule, train, seed),
            natural_held_out(rule, train, seed),
        )
        assert {where[piece] for piece in strings(rule, train)} <= known
        for rows in chosen:
            assert rows is not None and {where[piece] for piece in strings(rule, rows)} <= unseen


def test_repeated_pieces_count_once_and_are_not_held_out(tmp_path: Path) -> None:
    """A sentence that stands in every document is training data: held out, it would be a copy of itself."""
    documents = ["same same " + letter * 10 for letter in "abcdefghij"]
    rule = Text(file=packed_file(tmp_path, documents), length=10)
    train, unseen = (strings(rule, one[np.arange(len(one))]) for one in (rule.listed(), rule.unseen()))
    assert train.count("same same ") == 1 and "same same " not in unseen and len(train + unseen) == 11


def test_membership_is_exact(tmp_path: Path) -> None:
    rule = Text(file=packed_file(tmp_path, VERSES), length=8)
    pieces = torch.tensor([[LETTERS.index(letter) for letter in piece] for piece in slow_pieces(VERSES, 8)])
    assert bool(rule.is_valid(pieces).all())
    for place in range(8):
        other = pieces.clone()
        other[:, place] = (other[:, place] + 1) % 27
        assert not bool(rule.is_valid(other).any())
    assert not bool(rule.is_valid(torch.full((1, 8), 27)).any())


@given(some.lists(some.lists(some.integers(0, 255), min_size=5, max_size=5), min_size=1, max_size=40))
def test_digests_are_equal_exactly_where_rows_are(rows: list[list[int]]) -> None:
    found = digests_of(np.array(rows, dtype=np.uint8))
    same = np.array([[a == b for b in rows] for a in rows])
    assert np.array_equal((found[:, None] == found[None]).all(axis=2), same)


def test_the_built_in_text_is_large_enough_for_the_preset() -> None:
    rule = rules.create("text", length=256)
    assert len(training_set(rule, 1024)) == 1024 and len(rule.unseen()) >= 256  # type: ignore[arg-type]
    assert rule.symbols == 27 and rule.copy_chance(1000) == 0.0


def test_the_digest_is_filled_in_and_guards_the_text(tmp_path: Path) -> None:
    file = packed_file(tmp_path, VERSES)
    rule = Text(length=8, file=file)
    assert len(rule.sha256) == 64 and Text(length=8, file=file, sha256=rule.sha256) == rule
    with pytest.raises(SettingError, match="sha256"):
        Text(length=8, file=file, sha256="0" * 64)


def test_wrong_texts_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"file.*nowhere"):
        Text(length=8, file=str(tmp_path / "nowhere"))
    file = packed_file(tmp_path, VERSES)
    with pytest.raises(SettingError, match=r"length.*longest of 4 documents has 29 tokens"):
        Text(length=30, file=file)
    (tmp_path / "one").mkdir()
    with pytest.raises(SettingError, match="is one document"):
        Text(length=8, file=packed_file(tmp_path / "one", VERSES[:1]))


def test_the_share_is_named_where_the_share_is_wrong(tmp_path: Path) -> None:
    """Of 329 chapters, 0.999 leave none to train on; a shorter length would not help."""
    with pytest.raises(SettingError, match=r"^held_out: 0\.999 .* nearer to 0\.5"):
        Text(length=64, held_out=0.999)
    with pytest.raises(SettingError, match=r"^length: .* smaller length"):
        Text(length=4096, held_out=0.999, file=packed_file(tmp_path, ["a short one", "another one", "a third one"]))
