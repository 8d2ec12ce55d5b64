"""Text: the valid strings are pieces of a fixed length of a real text, over the 27 characters of text8."""

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
from twoclocks.core.rows import Keys, row_keys
from twoclocks.rules.base import RULES, Array, Rule, in_range

if TYPE_CHECKING:
    from torch import Tensor

ALPHABET = " abcdefghijklmnopqrstuvwxyz"
SHIPPED = "pydoc"  # the handbook that every Python brings along


@RULES.register("text")
@dataclass(frozen=True, kw_only=True)
class Text(Rule):
    """Pieces of a real text, without overlap, over space and a to z; a text has no other rule than itself."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"length": 64}, {"length": 16})
    only_a_sample: ClassVar[bool] = True

    length: int = setting(256, "characters of a string", at_least=1, at_most=1 << 16)
    path: str = setting(SHIPPED, "a text file, such as text8; pydoc: the language reference that comes with Python")
    sha256: str = setting("", "digest of the text after cleaning; filled in, and checked where it is given")

    def check(self) -> None:
        if self.path != SHIPPED:  # a run must find its text from any folder
            object.__setattr__(self, "path", str(Path(self.path).absolute()))
        text = cleaned(self.path)
        found = digest_of(self.path)
        if self.sha256 not in ("", found):
            fix = f"the text at {self.path!r} has {found[:16]}…; use that text, or leave sha256 out"
            raise SettingError("sha256", self.sha256, fix)
        object.__setattr__(self, "sha256", found)
        if len(text) < 2 * self.length:
            raise SettingError(
                "length", self.length, f"the text has {len(text):,} characters; use half of that at most"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def symbols(self) -> int:
        return len(ALPHABET)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        pieces = pieces_of(self.path, self.length)
        return pieces[rng.integers(0, len(pieces), size=n)]

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"string": x.reshape(len(x), 1, self.length)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        known = in_range(x, self.symbols)
        keys = row_keys(torch.where(known[:, None], x, 0), self.symbols)
        found = np.isin(keys, keys_of(self.path, self.length))
        return {"string": (torch.from_numpy(found).to(x.device) & known)[:, None]}

    def count(self) -> int:
        return len(pieces_of(self.path, self.length))

    def part_counts(self) -> dict[str, int]:
        return {"string": self.count()}

    def members(self) -> Tensor:
        return torch.from_numpy(pieces_of(self.path, self.length).astype(np.int64))

    def written(self, x: Tensor) -> list[str]:
        """Strings (n, length) as people read them."""
        return ["".join(ALPHABET[symbol] for symbol in row) for row in x.tolist()]


@cache
def cleaned(path: str) -> str:
    """A text in lower case, everything but letters a single space."""
    if path == SHIPPED:
        from pydoc_data.topics import topics

        text = " ".join(topics[name] for name in sorted(topics))
    else:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"rule.path: {path!r} cannot be read as text ({error}); give a text file") from None
    return re.sub("[^a-z]+", " ", text.lower()).strip()


@cache
def digest_of(path: str) -> str:
    """Settings are built often, and a corpus is long."""
    return sha256(cleaned(path).encode()).hexdigest()


@cache
def pieces_of(path: str, length: int) -> npt.NDArray[np.uint8]:
    """The distinct pieces of a text (count, length), in the order of their first use."""
    codes = np.frombuffer(cleaned(path).encode(), dtype=np.uint8)
    symbols = np.where(codes == ord(" "), 0, codes - np.uint8(ord("a") - 1)).astype(np.uint8)
    whole = symbols[: len(symbols) // length * length].reshape(-1, length)
    _, first = np.unique(row_keys(whole, len(ALPHABET)), return_index=True)
    return whole[np.sort(first)]


@cache
def keys_of(path: str, length: int) -> Keys:
    return row_keys(pieces_of(path, length), len(ALPHABET))
