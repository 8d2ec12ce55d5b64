"""Augmentation keeps every rule valid and moves whole pieces; noisy data mix entries at their places; curricula."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import twoclocks as tc
from twoclocks.core.errors import SettingError, UserError
from twoclocks.data import training_set
from twoclocks.data.augmentation import Mirrored, augmentation
from twoclocks.data.encodings import ENCODINGS
from twoclocks.data.noisy import Noisy
from twoclocks.data.settings import DataSettings
from twoclocks.rules.base import RULES
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment

EXCHANGING: list[tuple[str, dict[str, Any]]] = [
    ("parity", {"length": 12, "group": 3}),
    ("parity", {"length": 12, "group": 3, "scatter_seed": 1}),
    ("row_k", {"side": 4, "k": 2}),
    ("row_variable_k", {"side": 4, "ks": [1, 2]}),
    ("global_k", {"side": 4, "ks": [1, 3]}),
    ("latin", {"side": 4}),
    ("latin_cyclic", {"side": 4}),
    ("row_latin", {"side": 4}),
]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("name", "arguments"), EXCHANGING)
@pytest.mark.parametrize("encoding", ["tokens", "scalar", "one_hot"])
def test_samples_stay_valid_and_keep_their_pieces(name: str, arguments: dict[str, Any], encoding: str) -> None:
    rule, code = tc.rules.create(name, **arguments), ENCODINGS.create(encoding)
    rows = training_set(rule, 40)
    changed = augmentation(rule, "cpu")(code.encode(rule, rows), generator())
    symbols = code.decode(rule, changed).symbols
    assert rule.is_valid(symbols).all()
    kind = rule.exchangeable
    assert kind is not None
    before, after = (rule.parts(x)[kind] for x in (rows, symbols))
    for old, new in zip(before.tolist(), after.tolist(), strict=True):
        assert sorted(old) == sorted(new)  # the same pieces, in another order
    assert (before != after).flatten(1).any(dim=1).float().mean() > 0.5


def test_every_order_of_the_groups_is_equally_likely() -> None:
    rule = tc.rules.create("parity", length=6, group=2)
    rows = torch.tensor([[0, 0, 1, 1, 0, 1]]).repeat(6000, 1)  # three different groups; validity does not matter here
    found = augmentation(rule, "cpu")(rows, generator())
    counts = torch.unique(found, dim=0, return_counts=True)[1]
    assert len(counts) == 6 and ((counts - 1000).abs() < 5 * 1000**0.5).all()


def test_every_rule_that_exchanges_is_tested() -> None:
    assert {name for name, rule in RULES.items() if rule.exchangeable} == {name for name, _ in EXCHANGING}


def test_images_are_mirrored_half_of_the_time() -> None:
    images = torch.rand(2000, 2, 3, 4)
    found = Mirrored((2, 3, 4))(images, generator())
    same = (found == images).flatten(1).all(dim=1)
    assert torch.equal(found[~same], images[~same].flip(-1)) and 850 < int(same.sum()) < 1150
    tokens = Mirrored((2, 3, 4))(images.flatten(1), generator())
    assert torch.equal(tokens, found.flatten(1))  # also where the values of an image are read one by one


@pytest.mark.parametrize("name", ["rhm", "sudoku", "exact_k"])
def test_rules_without_exchangeable_pieces_are_refused(name: str) -> None:
    chosen = {
        "rhm": {"name": "rhm", "depth": 3, "branching": 2, "vocabulary": 16, "synonyms": 4},
        "sudoku": {"name": "sudoku"},
        "exact_k": {"name": "exact_k", "length": 24, "k": 6},
    }
    with pytest.raises(SettingError, match=r"data\.augment.*no pieces of this rule can change places"):
        load_settings("demo-gpt", {"rule": chosen[name], "data.augment": True})


def test_noisy_entries_come_from_the_same_place_of_another_row() -> None:
    rows = torch.arange(400)[:, None] * 100 + torch.arange(10)  # entry = 100 · row + place
    found = Noisy(0.2, entries=10)(rows, generator())
    assert torch.equal(found % 100, rows % 100)
    share = float((found != rows).double().mean())
    assert 0.17 < share < 0.23
    assert not torch.equal(Noisy(0.2, entries=10)(rows, generator(1)), found)


def test_noise_changes_all_channels_of_an_entry_together() -> None:
    code, rule = ENCODINGS.create("one_hot"), tc.rules.create("latin", side=4)
    found = Noisy(0.5, entries=16)(code.encode(rule, training_set(rule, 64)), generator())
    assert torch.equal(found.sum(dim=1), torch.ones(64, 4, 4))


def test_a_curriculum_shows_easier_rows_first_and_then_its_own() -> None:
    change = {"rule": {"name": "parity", "length": 12, "group": 6}, "data.n": 16, "data.easier_group": 2}
    made = Experiment(load_settings("demo-gpt", {**change, "data.easier_steps": 3}))
    shown, easier = made.shown(), tc.rules.create("parity", length=12, group=2)
    rows = torch.arange(16)
    for step, expected in [(1, easier), (3, easier), (4, made.rule), (100, made.rule)]:
        shown.begin(step)
        found = shown.batch(rows, generator())
        assert expected.is_valid(found).all()
    assert torch.equal(found, made.train_rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"easier_group": 2}, r"data\.easier_steps.*needs both"),
        ({"easier_steps": 5}, r"data\.easier_steps.*needs both"),
        ({"easier_group": 2, "easier_steps": 5}, r"data\.easier_group.*fewer bits than rule\.group = 2"),
        ({"noise": 1.0}, r"data\.noise.*below 1"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_settings("demo-gpt", {f"data.{key}": value for key, value in change.items()})


def test_an_easier_group_must_divide_the_length() -> None:
    with pytest.raises(SettingError, match=r"data\.easier_group: 5.*use one of \[1, 2, 3, 4, 6, 8, 12, 24\]"):
        load_settings("demo-gpt", {"rule.group": 6, "data.easier_group": 5, "data.easier_steps": 5})


def test_nothing_changes_by_default() -> None:
    assert DataSettings(n=8).changes(tc.rules.create("parity", length=6, group=2), "cpu") == ()
