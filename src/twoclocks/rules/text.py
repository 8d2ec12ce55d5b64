"""Text: pieces of a real text, of a fixed length, over the 27 characters of text8. A text has no rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.reading import read_file
from twoclocks.core.rows import Keys, row_keys
from twoclocks.rules.base import RULES, Array, Rule, in_range

if TYPE_CHECKING:
    from torch import Tensor

ALPHABET = " abcdefghijklmnopqrstuvwxyz"
MOST_BYTES = 1 << 30  # of a text file; text8 has 10^8
BUILT_IN = "pydoc"  # the language reference that is part of every Python installation


@RULES.register("text")
@dataclass(frozen=True, kw_only=True)
class Text(Rule):
    """Non-overlapping pieces of a real text over space and a to z.

    There is no rule that a new string could obey or break: runs have the clocks of copies and of the loss gap only.
    ``is_valid`` says whether a string is one of the pieces.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"length": 64}, {"length": 16})
    has_rule: ClassVar[bool] = False
    is_text: ClassVar[bool] = True
    is_corpus: ClassVar[bool] = True

    length: int = setting(256, "characters per string", at_least=1, at_most=1 << 16)
    path: str = setting(BUILT_IN, "a text file, such as text8; pydoc: the language reference that comes with Python")
    sha256: str = setting("", "SHA-256 of the cleaned text; filled in if empty, checked if given")

    def check(self) -> None:
        if self.path != BUILT_IN:  # a run must find its text from any working directory
            object.__setattr__(self, "path", str(Path(self.path).absolute()))
        text = clean_text(self.path)
        found = text_digest(self.path)
        if self.sha256 not in ("", found):
            fix = f"the text at {self.path!r} has {found[:16]}…; use that text, or leave sha256 out"
            raise SettingError("sha256", self.sha256, fix)
        object.__setattr__(self, "sha256", found)
        if len(text) < 2 * self.length:
            raise SettingError(
                "length", self.length, f"the text has {len(text):,} characters; use at most half of that"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def symbols(self) -> int:
        return len(ALPHABET)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        pieces = text_pieces(self.path, self.length)
        return pieces[rng.integers(0, len(pieces), size=n)]

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"string": x.reshape(len(x), 1, self.length)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        known = in_range(x, self.symbols)
        keys = row_keys(torch.where(known[:, None], x, 0), self.symbols)
        found = np.isin(keys, text_keys(self.path, self.length))
        return {"string": (torch.from_numpy(found).to(x.device) & known)[:, None]}

    def count(self) -> int:
        return len(text_pieces(self.path, self.length))

    def part_counts(self) -> dict[str, int]:
        return {"string": self.count()}

    def members(self) -> Tensor:
        return torch.from_numpy(text_pieces(self.path, self.length).astype(np.int64))

    def as_text(self, x: Tensor) -> list[str]:
        """Symbols (n, length) as Python strings."""
        return ["".join(ALPHABET[symbol] for symbol in row) for row in x.tolist()]


@cache
def clean_text(path: str) -> str:
    """Read a text and clean it: lower case, everything between letters becomes a single space."""
    if path == BUILT_IN:
        from pydoc_data.topics import topics

        text = " ".join(topics[name] for name in sorted(topics))
    else:
        fix = "give a text file"
        try:
            text = read_file(path, MOST_BYTES, "rule.path", fix).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"rule.path: {path!r} cannot be read as text ({error}); {fix}") from None
    return re.sub("[^a-z]+", " ", text.lower()).strip()


@cache
def text_digest(path: str) -> str:
    """SHA-256 of the cleaned text; cached, since settings are built often and a corpus is long."""
    return sha256(clean_text(path).encode()).hexdigest()


@cache
def text_pieces(path: str, length: int) -> npt.NDArray[np.uint8]:
    """The distinct pieces of a text (count, length), in the order of their first occurrence."""
    codes = np.frombuffer(clean_text(path).encode(), dtype=np.uint8)
    symbols = np.where(codes == ord(" "), 0, codes - np.uint8(ord("a") - 1)).astype(np.uint8)
    whole = symbols[: len(symbols) // length * length].reshape(-1, length)
    _, first = np.unique(row_keys(whole, len(ALPHABET)), return_index=True)
    return whole[np.sort(first)]


@cache
def text_keys(path: str, length: int) -> Keys:
    """One key per piece of a text, to find strings among them."""
    return row_keys(text_pieces(path, length), len(ALPHABET))
