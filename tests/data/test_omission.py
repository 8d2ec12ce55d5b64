"""Omitted contents: no training sample has them, nothing else changes, and what cannot be omitted is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import chisquare

import twoclocks as tc
from twoclocks.core.errors import SettingError
from twoclocks.core.rows import is_member
from twoclocks.data import DataSettings, holdout_set, omitted_contents, training_set
from twoclocks.data.omission import lacks, room_without
from twoclocks.rules import CodeBook, Parity, Rule

CASES = [
    ("parity", {"length": 12, "group": 4}, 2),
    ("parity", {"length": 12, "group": 4, "scatter_seed": 3}, 2),
    ("code_book", {"length": 12, "group": 3}, 1),
    ("row_k", {"side": 3, "k": 2}, 1),
    ("row_latin", {"side": 3}, 3),
    ("free", {"length": 4, "alphabet": 5}, 2),
]


def contents_of(rule: Rule, rows: torch.Tensor) -> set[tuple[int, ...]]:
    (pieces,) = rule.parts(rows).values()
    return {tuple(piece) for piece in pieces.flatten(0, 1).tolist()}


@pytest.mark.parametrize(("name", "settings", "omit"), CASES, ids=str)
def test_the_set_can_be_all_samples_without_the_omitted_contents(
    name: str, settings: dict[str, Any], omit: int
) -> None:
    """Against the whole valid set, listed: exactly the samples are left in which no piece is omitted."""
    rule = tc.rules.create(name, **settings)
    every, omitted = rule.enumerate(), omitted_contents(rule, omit, seed=4)
    gone = {tuple(one) for one in omitted.tolist()}
    assert len(gone) == omit and gone <= contents_of(rule, every)
    left = [row for row in every if not contents_of(rule, row[None]) & gone]
    assert len(left) == room_without(rule, omit) and lacks(rule, every.numpy(), omitted).sum() == len(left)
    train = training_set(rule, len(left), seed=4, omit=omit)
    assert len(torch.unique(train, dim=0)) == len(left) and is_member(train, torch.stack(left), rule.symbols).all()
    with pytest.raises(SettingError, match=rf"n: {len(left) + 1} is not allowed; .* only {len(left)} samples"):
        training_set(rule, len(left) + 1, seed=4, omit=omit)


def test_rows_stay_in_the_order_of_the_plain_set_and_a_smaller_one_begins_a_larger_one() -> None:
    rule = Parity(length=36, group=4)
    plain, train = training_set(rule, 4000, seed=2), training_set(rule, 300, seed=2, omit=1)
    kept = plain[torch.from_numpy(lacks(rule, plain.numpy(), omitted_contents(rule, 1, seed=2)))]
    assert len(kept) > 300 and torch.equal(kept[:300], train)
    assert len(contents_of(rule, train)) == 7 == len(contents_of(rule, plain)) - 1
    second = training_set(rule, 100, seed=2, part=1, omit=1)
    assert torch.equal(train[100:200], second)


def test_every_content_is_equally_likely_to_be_omitted() -> None:
    rule = Parity(length=8, group=4)
    places = torch.tensor([8, 4, 2, 1])
    chosen = torch.cat([omitted_contents(rule, 2, seed) @ places for seed in range(400)])
    counts = torch.bincount(chosen, minlength=16)
    assert (counts > 0).sum() == 8 and chisquare(counts[counts > 0].numpy()).pvalue > 1e-4
    assert torch.equal(omitted_contents(rule, 3, seed=5)[:2], omitted_contents(rule, 2, seed=5))


def test_held_out_samples_are_ordinary_samples_of_the_rule() -> None:
    rule, data = CodeBook(length=36, group=4), DataSettings(n=500, seed=1, omit=1)
    holdout = holdout_set(rule, data.training_set(rule), data.seed)
    omitted = data.omitted(rule)
    assert holdout is not None and omitted is not None
    assert contents_of(rule, omitted.repeat(1, 9)) <= contents_of(rule, holdout)
    assert DataSettings(n=500).omitted(rule) is None


REFUSED = [
    ("parity", {"length": 36, "group": 4}, 9, r"omit: 9 .*9 pieces have 8 valid contents each, .*; use 0 to 4"),
    ("parity", {"length": 36, "group": 4}, -1, r"omit: -1 .*use 0 to 4"),
    ("parity", {"length": 36, "group": 2}, 1, r"omit: 1 .*18 pieces have 2 valid contents each.*use 0, or a rule"),
    ("parity", {"length": 36, "group": 36}, 1, r"omit: 1 .*\(group\) are not independent; use a rule with several"),
    ("latin", {"side": 4}, 1, r"omit: 1 .*\(row, column\) are not independent"),
    ("global_k", {"side": 4, "ks": [1, 2]}, 1, r"omit: 1 .*are not independent"),
    ("rhm", {"depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 2}, 1, r"omit: 1 .*\(layer_1, layer_2\)"),
]


@pytest.mark.parametrize(("name", "settings", "omit", "message"), REFUSED, ids=str)
def test_what_cannot_be_omitted_is_refused(name: str, settings: dict[str, Any], omit: int, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        training_set(tc.rules.create(name, **settings), 4, omit=omit)
