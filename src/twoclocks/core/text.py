"""Text that is safe to print: control characters escaped, long values cut, and ASCII where nothing else can be written.

Names, paths and YAML keys come from files and command lines of other people. Escape sequences in them could move the
cursor, rename the window or forge a second line, so they are shown, never sent.
"""

from __future__ import annotations

from typing import Any

VALUE_LENGTH = 200  # characters of a value in a message
LINE_LENGTH = 1000  # characters of a message
MOST_BITS = 4096  # of integers that are shown with their digits
GAP = " … "

_ASCII = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "λ": "lambda", "μ": "mu", "π": "pi"},
    **{"ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega", "Δ": "Delta", "Σ": "Sum", "ℓ": "l"},
    **{"–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "±": "+/-", "≥": ">=", "≤": "<=", "≠": "!=", "≈": "~"},
    **{"→": "->", "←": "<-", "↑": "^", "↓": "v", "…": "...", "∞": "inf", "√": "sqrt", "²": "^2", "³": "^3", "⁻": "^-"},
    **{"‘": "'", "’": "'", "“": '"', "”": '"', "•": "*", "µ": "mu", "°": " deg", "½": "1/2", "∈": "in", "∂": "d"},
}


def printable(text: str) -> str:
    r"""The text with everything escaped that is not printable: controls, bidi marks, line ends, lone surrogates.

    >>> print(printable("a\x1b[2Jb\nc"))
    a\x1b[2Jb\nc
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in text)


def shortened(text: str, most: int = VALUE_LENGTH) -> str:
    """The text, cut in its middle where it has more than ``most`` characters: both ends stay.

    >>> shortened("0123456789", 7)
    '01 … 89'
    """
    if len(text) <= most:
        return text
    head = (most - len(GAP) + 1) // 2
    return f"{text[:head]}{GAP}{text[len(text) - (most - len(GAP) - head) :]}"


def one_line(text: str) -> str:
    """A message as one printable line of a readable length."""
    return shortened(printable(text), LINE_LENGTH)


def show(value: Any) -> str:
    """A value as an error names it: its ``repr``, or a short form of it.

    >>> show(10**5000)
    'an integer of 16610 bits'
    """
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        return shortened(printable(repr(value)))
    except (ValueError, RecursionError):  # an integer with thousands of digits inside, or a value that holds itself
        return f"a value of type {type(value).__name__}"


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
