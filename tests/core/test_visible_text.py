"""Text that is safe to print, whatever names and values are in it."""

from __future__ import annotations

import pytest

from twoclocks.core.errors import SettingError, UnknownNameError, UserError
from twoclocks.core.text import LINE_LENGTH, VALUE_LENGTH, encodable, one_line, shortened, show, visible


@pytest.mark.parametrize("bad", ["\x1b[2J", "\x1b]0;title\x07", "\n", "\r", "\x7f", "\x85", "\x9b", "\u202e", "\u2066"])
def test_what_moves_the_cursor_or_turns_the_text_is_shown_not_sent(bad: str) -> None:
    shown = visible(f"a{bad}b")
    assert shown.isprintable() and shown.startswith("a\\") and shown.endswith("b")
    assert visible(shown) == shown  # a line may pass here twice
    for error in (UserError(f"{bad}: no"), SettingError(bad, bad, bad), UnknownNameError(bad, bad, [bad])):
        assert str(error).isprintable()


def test_surrogates_and_ordinary_text() -> None:
    assert visible("\udcff") == "\\udcff"
    assert visible("τ_rule = 5×中 é") == "τ_rule = 5×中 é"


@pytest.mark.parametrize("length", [VALUE_LENGTH - 1, VALUE_LENGTH, VALUE_LENGTH + 1, 5000])
def test_long_text_is_cut_in_the_middle(length: int) -> None:
    text = "".join(chr(33 + i % 90) for i in range(length))
    cut = shortened(text)
    assert len(cut) == min(length, VALUE_LENGTH) and cut[:90] == text[:90] and cut[-90:] == text[-90:]


def test_messages_have_a_readable_length() -> None:
    assert len(str(SettingError("data.n", "x" * 10**6, "use less"))) < 300
    assert str(SettingError("data.n", "x" * 10**6, "use less")).endswith("use less")
    assert len(str(UserError("x" * 10**6))) == len(one_line("x" * 10**6)) == LINE_LENGTH
    assert len(str(UnknownNameError("a" * 10**5, "b" * 10**5, ["c"]))) < 500


def test_values_that_have_no_repr_are_named() -> None:
    holds_itself: list[object] = []
    for _ in range(10**4):
        holds_itself = [holds_itself]
    assert show(10**5000) == "an integer of 16610 bits" and show([10**5000]) == "a value of type list"
    assert show(holds_itself) == "a value of type list" and show("'") == '"\'"'


def test_ascii_stands_in_for_what_an_encoding_lacks() -> None:
    text = "τ_rule ≥ 5×10 – a·N^α … é 中"
    assert encodable(text, "utf-8") == encodable(text, None) == text
    assert encodable(text, "latin-1") == "tau_rule >= 5×10 - a·N^alpha ... é \\u4e2d"
    assert encodable(text, "ascii") == "tau_rule >= 5x10 - a*N^alpha ... \\xe9 \\u4e2d"
    assert encodable("τ", "no such encoding") == "tau"
