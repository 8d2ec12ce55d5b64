"""Settings are strict: what is wrong is named with its field, its value and the fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from twoclocks.core.arguments import as_overrides
from twoclocks.core.config import Settings, build, merge, setting, to_mapping
from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.core.yaml_files import parse_yaml


@dataclass(frozen=True, kw_only=True)
class Inner(Settings):
    rate: float = setting(0.1, "a rate", above=0)
    kind: Literal["a", "b"] = setting("a")


@dataclass(frozen=True, kw_only=True)
class Outer(Settings):
    count: int = setting(help="a count", at_least=2)
    marks: tuple[int, ...] | None = setting(None, at_least=0)
    flag: bool = setting(False)
    inner: Inner = setting(Inner())
    later: int = setting(0, "a setting that an earlier version did not have", added=True)


def test_round_trip_through_plain_mapping() -> None:
    value = Outer(count=3, marks=(1, 2), inner=Inner(rate=2, kind="b"))
    assert build(Outer, to_mapping(value)) == value
    assert isinstance(value.inner.rate, float)


def test_a_setting_that_was_added_is_stored_only_where_it_is_used() -> None:
    old, new = Outer(count=3), Outer(count=3, later=2)
    assert "later" not in to_mapping(old) and to_mapping(old, whole=True)["later"] == 0
    assert to_mapping(new)["later"] == to_mapping(new, whole=True)["later"] == 2
    assert build(Outer, to_mapping(old)) == build(Outer, to_mapping(old, whole=True)) == old
    assert build(Outer, to_mapping(new)) == new


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"count": 1}, ["count", "1", "at least 2"]),
        ({"count": "3"}, ["count", "'3'", "without quotes"]),
        ({"count": 2.5}, ["count", "2.5", "integer"]),
        ({"count": True}, ["count", "True", "integer"]),
        ({"count": 3, "inner": {"rate": 0}}, ["inner.rate", "0", "above 0"]),
        ({"count": 3, "inner": {"rate": float("nan")}}, ["inner.rate", "nan", "finite"]),
        ({"count": 3, "inner": {"kind": "c"}}, ["inner.kind", "'c'", "a, b"]),
        ({"count": 3, "inner": 7}, ["inner", "7", "section"]),
        ({"count": 3, "marks": 7}, ["marks", "7", "list"]),
        ({"count": 3, "marks": [1, -1]}, ["marks", "-1", "at least 0"]),
        ({"count": 3, "flag": "yes"}, ["flag", "'yes'", "true or false"]),
        ({"count": 3, "inner": {"rate": 10**400}}, ["inner.rate", "finite"]),
    ],
)
def test_bad_value_names_field_value_and_fix(mapping: dict[str, object], words: list[str]) -> None:
    with pytest.raises(SettingError) as caught:
        build(Outer, mapping)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_value_is_called_missing() -> None:
    with pytest.raises(UserError, match="count: it is missing"):
        build(Outer, {})


def test_unknown_key_offers_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rate'"):
        build(Outer, {"count": 3, "inner": {"rte": 1}})


def test_overrides_nest_and_parse_numbers_as_yaml_should() -> None:
    assert as_overrides(["--a.b", "1e-4", "--a.c=[1, 2]", "--d", "text"]) == {
        "a": {"b": 1e-4, "c": [1, 2]},
        "d": "text",
    }


def test_overrides_of_one_section_add_up() -> None:
    assert as_overrides(["--data.n", "5", "--data", "{seed: 1}"]) == {"data": {"n": 5, "seed": 1}}
    assert as_overrides(["--rule", "parity", "--rule.group", "3"]) == {"rule": {"name": "parity", "group": 3}}


@pytest.mark.parametrize("words", [["--a"], ["stray"], ["--"]])
def test_malformed_overrides_are_refused(words: list[str]) -> None:
    with pytest.raises(UserError):
        as_overrides(words)


@pytest.mark.parametrize(
    "text", ["a: [1", "a: 1\na: 2", "!!python/object/apply:os.system ['true']", "a: \x07", "9" * 5000, "[" * 3000]
)
def test_yaml_that_is_broken_repeated_or_dangerous_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_yaml(text, source="file.yaml")
    assert "file.yaml" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("020", 20),
        ("1:30", "1:30"),
        ("1e-4", 1e-4),
        ("2024-01-02", "2024-01-02"),
        ("yes", "yes"),
        ("true", True),
        ("null", None),
        ("-3", -3),
        (".5", 0.5),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("[1, 2.0]", [1, 2.0]),
        (".inf", float("inf")),
    ],
)
def test_yaml_numbers_are_what_they_look_like(text: str, value: object) -> None:
    found = parse_yaml(text, source="x")
    assert found == value and type(found) is type(value)


def test_short_form_of_a_section_keeps_its_other_fields() -> None:
    base = {"model": {"name": "dit", "width": 48}}
    assert merge(base, {"model": "dit"}) == base
    assert merge(base, {"model": "gpt"}) == {"model": {"name": "gpt"}}


def test_merge_starts_a_renamed_section_anew() -> None:
    base = {"rule": {"name": "parity", "length": 36}, "data": {"n": 2}}
    assert merge(base, {"rule": {"name": "latin", "side": 5}, "data": {"seed": 1}}) == {
        "rule": {"name": "latin", "side": 5},
        "data": {"n": 2, "seed": 1},
    }
