"""The one reader of command-line settings."""

from __future__ import annotations

import pytest

from twoclocks.core.arguments import OneLineParser, as_overrides, check_words, split_settings
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--" + ".".join("a" * 1200), "1"], "has 1,199 dots"),
        (["--x=1"] * 10_001, "10,001 arguments: use at most 10,000"),
        (["x\x1b[31m" * 500], r"'x\\x1b\[31m.*….*' is not an option"),
    ],
)
def test_endless_arguments_are_one_short_line(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        as_overrides(words)
    assert len(str(caught.value)) < 300 and str(caught.value).isprintable()


def test_a_nul_character_is_refused() -> None:
    check_words(["run", "demo"])
    with pytest.raises(UserError, match="NUL"):
        check_words(["run", "a\0b"])


def test_overrides_are_arguments_or_a_mapping() -> None:
    assert as_overrides(["--data.n", "5"]) == as_overrides({"data.n": 5}) == as_overrides({"data": {"n": 5}})
    with pytest.raises(UserError, match="'stray' is not an option"):
        as_overrides(["stray"])


def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        OneLineParser(prog="twoclocks x").parse_args(["stray"])
    assert ending.value.code == 2 and capsys.readouterr().err.count("\n") == 1
