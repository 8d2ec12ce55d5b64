"""The one reader of command-line settings."""

from __future__ import annotations

import pytest

from twoclocks.core.arguments import OneLineParser, as_overrides, split_settings
from twoclocks.core.errors import UserError


def test_settings_are_what_the_parser_does_not_know() -> None:
    parser = OneLineParser(prog="twoclocks x")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--views", nargs="+")
    assert parser.own_options == {"-h", "--help", "--json", "--views"}
    words = ["--views", "a", "b", "--data.n", "5", "--json", "file", "--rate", "-1e-3", "--name=x=y"]
    settings, rest = split_settings(words, parser.own_options)
    assert settings == {"data": {"n": 5}, "rate": -1e-3, "name": "x=y"}
    assert rest == ["--views", "a", "b", "--json", "file"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jsn"], "'--jsn' is not an option; did you mean '--json'"),
        (["--data.n"], "data.n: its value is missing; write --data.n VALUE"),
        (["--data.n", "--json"], "data.n: its value is missing"),
    ],
)
def test_a_setting_without_a_value_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        split_settings(words, {"--json"})


def test_overrides_are_arguments_or_a_mapping() -> None:
    assert as_overrides(["--data.n", "5"]) == as_overrides({"data.n": 5}) == as_overrides({"data": {"n": 5}})
    with pytest.raises(UserError, match="'stray' is not an option"):
        as_overrides(["stray"])


def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        OneLineParser(prog="twoclocks x").parse_args(["stray"])
    assert ending.value.code == 2 and capsys.readouterr().err.count("\n") == 1
