"""Every registered rule: the contract at its published sizes, a test file for each, and helpful errors."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

import twoclocks as tc
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.rows import is_member
from twoclocks.rules import RULES, Rule
from twoclocks.testing import check_rule

SMALL: dict[str, dict[str, Any]] = {  # sizes at which everything can be listed
    "parity": {"length": 8, "group": 4},
    "code_book": {"length": 8, "group": 4, "seed": 1},
    "text": {"length": 1024},
    "images": {"reserved": 0.9},
    "exact_k": {"length": 9, "k": 3},
    "row_k": {"side": 3, "k": 2},
    "row_variable_k": {"side": 3, "ks": [0, 2]},
    "global_k": {"side": 3, "ks": [1, 3, 0]},
    "latin": {"side": 4},
    "latin_cyclic": {"side": 4},
    "row_latin": {"side": 3},
    "sudoku": {"block_rows": 2, "block_cols": 2},
    "sudoku_cyclic": {"block_rows": 2, "block_cols": 2},
    "free": {"length": 3, "alphabet": 6},
    "rhm": {"depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 2, "rule_seed": 3},
}
PUBLISHED = [(name, example) for name, cls in RULES.items() for example in cls.examples]


def label(value: object) -> str:
    return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("name", "settings"), PUBLISHED, ids=label)
def test_contract_at_the_published_sizes(name: str, settings: dict[str, Any]) -> None:
    check_rule(tc.rules.create(name, **settings))


@pytest.mark.parametrize(("name", "settings"), SMALL.items(), ids=label)
def test_contract_where_everything_can_be_listed(name: str, settings: dict[str, Any]) -> None:
    rule = tc.rules.create(name, **settings)
    assert rule.support() <= 1024
    check_rule(rule)


# Texts and images look samples up in a sorted list on the host: a corpus is too large for a GPU's memory.
ON_DEVICE = {name: settings for name, settings in SMALL.items() if name not in ("text", "images")}


@pytest.mark.parametrize(("name", "settings"), ON_DEVICE.items(), ids=label)
def test_rules_judge_samples_on_the_device_where_they_are(name: str, settings: dict[str, Any]) -> None:
    """The meta device has shapes and no numbers: a table left on the CPU, or reading a value, is an error there."""
    rule = tc.rules.create(name, **settings)
    x = rule.sample(3, seed=0).to("meta")
    verdicts = [rule.is_valid(x), *rule.parts_valid(x).values()]
    assert all(found.is_meta for found in (*verdicts, *rule.parts(x).values()))


@pytest.mark.parametrize("name", RULES.names())
def test_every_registered_rule_has_its_tests(name: str) -> None:
    """A new file of rules comes with its own test file, and each rule with a size small enough to list."""
    module = Path(inspect.getfile(RULES.get(name))).stem
    assert (Path(__file__).parent / f"test_{module}.py").exists()
    assert name in SMALL and RULES.get(name).examples


@pytest.mark.parametrize(("name", "settings"), SMALL.items(), ids=label)
def test_two_disjoint_training_sets(name: str, settings: dict[str, Any]) -> None:
    rule = tc.rules.create(name, **settings)
    n = rule.support() // 2
    first, second = tc.data.disjoint_training_sets(rule, n=n, seed=4)
    assert torch.equal(first, tc.data.training_set(rule, n=n, seed=4))
    assert len(torch.unique(torch.cat([first, second]), dim=0)) == 2 * n
    assert bool(rule.is_valid(torch.cat([first, second])).all())
    assert not is_member(second, first, rule.symbols).any()


@pytest.mark.parametrize(("name", "settings"), SMALL.items(), ids=label)
def test_a_smaller_set_begins_a_larger_one_for_every_rule(name: str, settings: dict[str, Any]) -> None:
    rule = tc.rules.create(name, **settings)
    whole = tc.data.training_set(rule, n=rule.support(), seed=1)
    assert len(torch.unique(whole, dim=0)) == rule.support()
    for n in (2, rule.support() // 3, rule.support() - 1):
        assert torch.equal(tc.data.training_set(rule, n=n, seed=1), whole[:n])


IMPOSSIBLE = [
    ("code_book", {"length": 42, "group": 21}, r"rule\.group: 21 is not allowed; .*at most 20"),
    ("code_book", {"length": 10, "group": 4}, r"rule\.group: 4 .*must divide length = 10; use one of \[1, 2, 5, 10\]"),
    ("parity", {"length": 8, "group": 4, "scatter_seed": "x"}, r"rule\.scatter_seed: 'x' .*an integer"),
    ("exact_k", {"length": 4, "k": 5}, r"rule\.k: 5 is not allowed; .*length = 4 bits; use 0 to 4"),
    ("exact_k", {"length": 0, "k": 0}, r"rule\.length: 0 .*at least 1"),
    ("exact_k", {"length": 4, "k": -1}, r"rule\.k: -1 .*at least 0"),
    ("exact_k", {"length": 4}, r"rule\.k: it is missing"),
    ("exact_k", {}, r"rule\.length, rule\.k: they are missing"),
    ("row_k", {"side": 3, "k": 4}, r"rule\.k: 4 .*side = 3 bits"),
    ("row_variable_k", {"side": 3, "ks": []}, r"rule\.ks: \[\] .*at least one"),
    ("row_variable_k", {"side": 3, "ks": [1, 1]}, r"rule\.ks: \[1, 1\] .*appears twice; use \[1\]"),
    ("row_variable_k", {"side": 3, "ks": 2}, r"rule\.ks: 2 .*use a list, for example \[2\]"),
    ("global_k", {"side": 3, "ks": [1, 7]}, r"rule\.ks: 7 .*side = 3 bits"),
    ("latin", {"side": 0}, r"rule\.side: 0 .*at least 1"),
    ("latin", {"side": 12}, r"rule\.side: 12 .*at most 11"),
    ("row_latin", {"side": 0}, r"rule\.side: 0 "),
    ("sudoku", {"block_rows": 4, "block_cols": 4}, r"rule\.block_cols: 4 .*unknown; use blocks of 2×2, 2×3"),
    ("sudoku", {"block_rows": 0}, r"rule\.block_rows: 0 "),
    ("sudoku", {"block_rows": 12, "block_cols": 1}, r"rule\.block_rows: 12 .*Latin square"),
    ("sudoku", {"block_rows": 1, "block_cols": 12}, r"rule\.block_cols: 12 .*Latin square"),
    ("sudoku_cyclic", {"block_rows": 3, "block_cols": 3}, r"rule\.block_cols: 3 .*at most 6"),
    ("free", {"length": 2, "alphabet": 1}, r"rule\.alphabet: 1 .*at least 2"),
    ("rhm", {"depth": 2, "branching": 2, "vocabulary": 4, "synonyms": 5}, r"rule\.synonyms: 5 .*use 1 to 4"),
    ("rhm", {"depth": 2, "branching": 1, "vocabulary": 4, "synonyms": 1}, r"rule\.branching: 1 .*at least 2"),
    ("rhm", {"depth": 16, "branching": 3, "vocabulary": 4, "synonyms": 1}, r"rule\.depth: 16 .*leaves at most"),
    ("rhm", {"depth": 1, "branching": 40, "vocabulary": 4, "synonyms": 1}, r"rule\.vocabulary: 4 .*too many"),
]


@pytest.mark.parametrize(("name", "settings", "message"), IMPOSSIBLE)
def test_impossible_rules_name_the_field_the_value_and_the_fix(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        tc.rules.create(name, **settings)


@pytest.mark.parametrize(("name", "settings"), SMALL.items(), ids=label)
def test_more_rows_than_the_rule_has_are_refused(name: str, settings: dict[str, Any]) -> None:
    rule: Rule = tc.rules.create(name, **settings)
    with pytest.raises(SettingError, match=rf"n: {rule.support() + 1} .*only {rule.support()} samples"):
        tc.data.training_set(rule, n=rule.support() + 1)
    with pytest.raises(SettingError, match=rf"part: 1 .* n up to {rule.support() // 2}, or part up to 0"):
        tc.data.training_set(rule, n=rule.support(), part=1)
    if rule.unseen() is None:  # held-out documents are never trained on
        with pytest.raises(SettingError, match=r"n: 1 .*contains all samples of the rule"):
            tc.data.held_out(rule, rule.enumerate(), n=1)


@pytest.mark.parametrize(("name", "settings"), SMALL.items(), ids=label)
def test_edges(name: str, settings: dict[str, Any]) -> None:
    """No rows, wrong numbers of rows, symbols out of range, lists, and chances that stay probabilities."""
    rule = tc.rules.create(name, **settings)
    assert rule.sample(0, seed=0).shape == (0, *rule.shape)
    for n in (-1, 2.5):
        with pytest.raises(UserError, match="n: "):
            rule.sample(n, seed=0)  # type: ignore[arg-type]
    x = rule.sample(3, seed=0)
    assert rule.is_valid(x.tolist()).all() and rule.is_valid(x.numpy().astype("uint16")).all()  # type: ignore[arg-type]
    for wrong in (-1, rule.symbols):
        broken = x.clone()
        broken.view(3, -1)[:, 0] = wrong
        assert not any(bool(valid[:, 0].any()) for valid in rule.parts_valid(broken).values())
    assert rule.copy_chance(10**9) == (0.0 if rule.is_corpus else 1.0)
    assert rule.cube_copy_chance(1) == rule.symbols ** -float(x[0].numel())


@pytest.mark.parametrize(("name", "settings"), SMALL.items(), ids=label)
def test_validity_does_not_depend_on_type_or_device(name: str, settings: dict[str, Any]) -> None:
    rule = tc.rules.create(name, **settings)
    x = torch.cat([rule.sample(20, 0), tc.data.cube_set(rule, 200, 0)])
    expected = rule.is_valid(x)
    assert 20 <= int(expected.sum()) < 220 or rule.chance() == 1
    assert torch.equal(rule.is_valid(x.to(torch.uint8)), expected)
    if torch.cuda.is_available():
        assert torch.equal(rule.is_valid(x.cuda()).cpu(), expected)
        for kind, valid in rule.parts_valid(x.cuda()).items():
            assert torch.equal(valid.cpu(), rule.parts_valid(x)[kind])
