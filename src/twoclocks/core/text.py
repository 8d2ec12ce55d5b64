"""Text that is safe to show: control characters escaped, long values cut, and ASCII where nothing else can be written.

Names, paths and YAML keys come from files and command lines of other people. Escape sequences in them could move the
cursor, rename the window or imitate a second line, so they are shown, never sent.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

VALUE_LENGTH = 200  # characters of a value in a message
LINE_LENGTH = 1000  # characters of a message
MOST_BITS = 4096  # of integers that are shown with their digits
GAP = "…"
JOINERS = "\u200c\u200d"  # they shape letters and emoji, and move nothing
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (also from right to left), half of a pair, line breaks

_ASCII = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "λ": "lambda", "μ": "mu", "π": "pi"},
    **{"ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega", "Δ": "Delta", "Σ": "Sum", "ℓ": "l"},
    **{"–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "±": "+/-", "≥": ">=", "≤": "<=", "≠": "!=", "≈": "~"},
    **{"→": "->", "←": "<-", "↑": "^", "↓": "v", "…": "...", "∞": "inf", "√": "sqrt", "²": "^2", "³": "^3", "⁻": "^-"},
    **{"‘": "'", "’": "'", "“": '"', "”": '"', "•": "*", "µ": "mu", "°": " deg", "½": "1/2", "∈": "in", "∂": "d"},
}


def visible(text: str, keep: str = "") -> str:
    r"""Text whose invisible characters are written as Python would escape them, except those in ``keep``.

    >>> visible("a\x1b[31m\u202eb"), visible("$x_1$ <b> 中 😀")
    ('a\\x1b[31m\\u202eb', '$x_1$ <b> 中 😀')
    """
    if text.isprintable():
        return text
    return "".join(ascii(c)[1:-1] if is_hidden(c) and c not in keep else c for c in text)


def is_hidden(character: str) -> bool:
    """Whether a character changes what is around it, or may not be written to a file."""
    if unicodedata.category(character) in HIDDEN:
        return character not in JOINERS
    return ord(character) & 0xFFFE == 0xFFFE  # no character, by definition


def shortened(text: str, most: int = VALUE_LENGTH) -> str:
    """The text, cut in its middle where it has more than ``most`` characters: both ends stay.

    >>> shortened("0123456789", 7)
    '012…789'
    """
    if len(text) <= most:
        return text
    head = (most - len(GAP) + 1) // 2
    return f"{text[:head]}{GAP}{text[len(text) - (most - len(GAP) - head) :]}"


def short(text: str, most: int) -> str:
    """A name as drawings and tables show it: visible, and of at most so many characters."""
    return shortened(visible(text), most)


def one_line(text: str) -> str:
    """A message as one printable line of a readable length."""
    return short(text, LINE_LENGTH)


def show(value: Any, most: int = VALUE_LENGTH) -> str:
    """A value as an error names it: its ``repr`` on one line, cut in its middle; an exception by its message.

    >>> show(10**5000), show([1, 2])
    ('an integer of 16610 bits', '[1, 2]')
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = str(value) if isinstance(value, Exception) else repr(value)
    except Exception:  # an integer with thousands of digits inside, a value that holds itself, an object of the user
        return f"a value of type {type(value).__name__}"
    return short(re.sub(r"\s*\n\s*", " ", text), most)


def encodable(text: str, encoding: str | None) -> str:
    r"""The text with everything replaced by ASCII that the encoding of a stream does not have.

    >>> print(encodable("τ_rule ≥ 5×", "latin-1"), encodable("τ_rule ≥ 5× 中", "ascii"))
    tau_rule >= 5× tau_rule >= 5x \u4e2d
    """
    if text.isascii() or _has(encoding, text):
        return text
    return "".join(
        one if _has(encoding, one) else _ASCII.get(one) or one.encode("ascii", "backslashreplace").decode()
        for one in text
    )


def _has(encoding: str | None, text: str) -> bool:
    """Whether a stream of this encoding can write the text; a stream without an encoding holds any text."""
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
