"""One checked file of a text: its tokens one after another, where each document begins, and its vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.packed_file import About, Kind, digest_of, ends_of, read_array, write_array

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Starts = npt.NDArray[np.int64]
TokenKind = Literal["letters", "characters", "bytes", "tokenizer"]
LETTERS = " abcdefghijklmnopqrstuvwxyz"  # the 27 characters of text8


@dataclass(frozen=True)
class Vocabulary:
    """What a token stands for.

    ``table``: the characters in the order of their tokens (letters, characters), nothing (bytes), or the JSON file of
    a Hugging Face tokenizer.
    """

    kind: TokenKind
    table: str
    symbols: int  # tokens are 0 … symbols − 1

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens as a string; bytes that are no UTF-8 become �.

        >>> Vocabulary("letters", LETTERS, 27).decode([1, 0, 2])
        'a b'
        """
        if self.kind == "bytes":
            return bytes(tokens).decode("utf-8", errors="replace")
        if self.kind == "tokenizer":
            return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))
        return "".join(self.table[token] for token in tokens)

    @cached_property
    def tokenizer(self) -> Any:
        """The Hugging Face tokenizer of the table."""
        return open_tokenizer(self.table)


def open_tokenizer(text: str) -> Any:
    """A Hugging Face tokenizer from the JSON of its file; UserError where the package is missing or it is none."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UserError("tokenizers: is not installed; run pip install 'twoclocks[text]'") from None
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises plain Exception
        raise UserError(f"the tokenizer cannot be read ({error}); give the tokenizer.json of a tokenizer") from None


@dataclass(frozen=True)
class PackedText:
    """Tokens (total,) of all documents in a row; document i has those from starts[i] to starts[i + 1]."""

    tokens: Tokens
    starts: Starts  # (documents + 1,)
    vocabulary: Vocabulary
    about: About  # source, options, documents that were left out

    @property
    def digest(self) -> str:
        """SHA-256 of tokens, documents and vocabulary, as hexadecimal text; the source does not matter."""
        found: str = self.about["digest"]
        return found

    def characters_per_token(self, rows: Tokens) -> float | None:
        """Characters of the text that a token of these rows stands for, on average; None where nobody knows.

        Of a tokenizer it is the mean over the whole text: what a token stands for can depend on its neighbours. A text
        with unknown tokens has no such number.
        """
        if self.vocabulary.kind == "tokenizer":
            known = not self.about.get("counts", {}).get("unknown tokens")
            characters = self.about.get("characters", 0)
            return characters / len(self.tokens) if characters and known else None
        if self.vocabulary.kind == "bytes":  # every character has one byte that is no continuation byte
            return float(np.mean((np.asarray(rows) & 0xC0) != 0x80))
        return 1.0

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.starts) - 1

    def summary(self) -> dict[str, Any]:
        """What the file holds."""
        listed = {name: len(self.about[name]) for name in ("skipped", "duplicates")}
        return {
            "source": self.about["source"],
            "documents": len(self),
            "tokens": len(self.tokens),
            "vocabulary": f"{self.vocabulary.kind}, {self.vocabulary.symbols:,} symbols",
            **self.about.get("counts", listed),  # of very many duplicates, only the first are listed
            "options": self.about["options"],
            "digest": self.digest,
        }


def token_type(symbols: int) -> np.dtype[Any]:
    """The smallest type that holds all tokens."""
    return np.dtype(np.uint8 if symbols <= 256 else np.uint16 if symbols <= 65_536 else np.uint32)


def make_packed_text(tokens: Tokens, starts: Starts, vocabulary: Vocabulary, origin: Mapping[str, Any]) -> PackedText:
    """Packed text of these tokens; ``origin`` has source, options, skipped and duplicates."""
    check_tokens(tokens, vocabulary.symbols)
    tokens = np.ascontiguousarray(tokens, dtype=token_type(vocabulary.symbols))
    words = {"kind": vocabulary.kind, "table": vocabulary.table, "symbols": vocabulary.symbols}
    stored = {"format": TEXT.format, "shape": list(tokens.shape), "type": tokens.dtype.name}
    about = {**origin, **stored, "starts": [int(start) for start in starts], "vocabulary": words}
    return PackedText(
        tokens, np.asarray(starts, dtype=np.int64), vocabulary, {**about, "digest": _digest(tokens, about)}
    )


def check_tokens(tokens: Tokens, symbols: int) -> None:
    """UserError where a token stands for nothing in the vocabulary."""
    low, high = ends_of(tokens)
    if low < 0 or high >= symbols:
        found = high if high >= symbols else low
        raise UserError(f"tokens: {found:,} is not in the vocabulary of {symbols:,} symbols; pack the text again")


def _digest(tokens: Tokens, about: About) -> str:
    return digest_of(tokens, json.dumps([about["vocabulary"], about["starts"]], sort_keys=True).encode())


def write_packed_text(packed: PackedText, path: Path | str) -> None:
    """Write the file atomically; a complete file that was there before is replaced only by a complete one."""
    write_array(TEXT, packed.about, packed.tokens, path)


def read_packed_text(path: Path | str) -> PackedText:
    """Map a packed file into memory and check its SHA-256; UserError if it is damaged or something else."""
    tokens, about = read_array(TEXT, path, _digest)
    words = about["vocabulary"]
    vocabulary = Vocabulary(words["kind"], words["table"], words["symbols"])
    try:
        check_tokens(tokens, vocabulary.symbols)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return PackedText(tokens, np.array(about["starts"], dtype=np.int64), vocabulary, about)


def _is_complete(about: About) -> bool:
    """Whether a header describes a text as this module writes it."""
    words, starts, (total,) = about["vocabulary"], about["starts"], about["shape"]
    symbols, table = words["symbols"], words["table"]
    return (
        words["kind"] in get_args(TokenKind)
        and type(symbols) is int
        and symbols >= 1
        and (words["kind"] not in ("letters", "characters") or len(table) == symbols)
        and about["type"] == token_type(symbols).name
        and all(type(start) is int for start in starts)
        and starts[0] == 0
        and starts[-1] == total
        and all(a < b for a, b in pairwise(starts))
        and isinstance(about["source"], str)
        and isinstance(about["options"], dict)
        and isinstance(about.get("counts", {}), dict)
        and type(about.get("characters", 0)) is int
        and all(isinstance(about[name], list) for name in ("skipped", "duplicates"))
    )


TEXT = Kind("twoclocks text 1", "tokens", "text", _is_complete)
