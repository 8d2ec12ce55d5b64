"""Names of folders and settings as they can be shown: nothing in them acts on a terminal, a page or a drawing."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"  # they shape letters and emoji, and move nothing
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (also from right to left), half of a pair, line breaks


def visible(text: str, keep: str = "") -> str:
    r"""Text whose invisible characters are written as Python would escape them, except those in ``keep``.

    >>> visible("a\x1b[31m\u202eb"), visible("$x_1$ <b> 中 😀")
    ('a\\x1b[31m\\u202eb', '$x_1$ <b> 中 😀')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(ascii(c)[1:-1] if is_hidden(c) and c not in keep else c for c in text)


def is_hidden(character: str) -> bool:
    """Whether a character changes what is around it, or may not be written to a file."""
    if unicodedata.category(character) in HIDDEN:
        return character not in JOINERS
    return ord(character) & 0xFFFE == 0xFFFE  # no character, by definition


def short(text: str, most: int) -> str:
    """Text of at most so many characters, visible; the middle is left out where it is longer.

    >>> short("a-long-name-that-ends-with-7", 15)
    'a-long-…-with-7'
    """
    text = visible(text)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - 1 - most // 2) :]}"


def shown(value: object, most: int = 60) -> str:
    """Any value as one short line, for a message; an object that cannot be shown is named by its type.

    >>> shown([1, 2]), shown("a\\nb")
    ('[1, 2]', "'a\\\\nb'")
    """
    try:
        text = str(value) if isinstance(value, Exception) else repr(value)
    except Exception:
        text = f"an object of type {type(value).__name__}"
    return short(" ".join(text.split()), most)
