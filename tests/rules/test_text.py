"""Text as data: cleaning, pieces, membership."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from twoclocks import rules
from twoclocks.core.errors import SettingError, UserError
from twoclocks.data import training_set
from twoclocks.rules.text import Text, clean_text
from twoclocks.testing import check_rule

SAID = "To be, or not to be: that is THE question!\n42 Whether 'tis nobler"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "said.txt").write_text(SAID, encoding="utf-8")
    return str(tmp_path / "said.txt")


def test_pieces_are_the_text_in_order_without_overlap(path: str) -> None:
    rule = Text(length=8, path=path)
    assert clean_text(path) == "to be or not to be that is the question whether tis nobler"
    strings = rule.as_text(rule.enumerate())
    assert strings == ["to be or", " not to ", "be that ", "is the q", "uestion ", "whether ", "tis nobl"]
    assert bool(rule.is_valid(rule.enumerate()).all()) and rule.count() == 7
    other = rule.enumerate().clone()
    other[:, 3] = (other[:, 3] + 1) % 27
    assert not bool(rule.is_valid(other).any())
    check_rule(rule)


def test_repeated_pieces_count_once(tmp_path: Path) -> None:
    (tmp_path / "again.txt").write_text("abcd" * 10 + "efgh", encoding="utf-8")
    assert Text(length=4, path=str(tmp_path / "again.txt")).count() == 2


def test_the_text_that_comes_with_python_is_large_enough_for_the_preset() -> None:
    rule = rules.create("text", length=256)
    assert len(training_set(rule, 1024)) == 1024 and rule.support() >= 1024 + 256


def test_the_digest_is_filled_in_and_guards_the_text(path: str) -> None:
    rule = Text(length=8, path=path)
    assert len(rule.sha256) == 64 and Text(length=8, path=path, sha256=rule.sha256) == rule
    with pytest.raises(SettingError, match="sha256"):
        Text(length=8, path=path, sha256="0" * 64)


def test_wrong_texts_are_named(path: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rule.path.*nowhere"):
        Text(length=8, path=str(tmp_path / "nowhere"))
    with pytest.raises(SettingError, match="length"):
        Text(length=50, path=path)


def test_who_learned_a_language_makes_no_copies_by_chance() -> None:
    rule = Text(length=64)
    assert rule.copy_chance(1000) == 0.0 and rule.cube_copy_chance(10) < 1e-80
    assert torch.equal(rule.sample(5, seed=1), rule.sample(5, seed=1))
