"""Text as tokens, part by part: the parts of a document give the same tokens as the whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.packed_text import LETTERS, Tokens, Vocabulary, open_tokenizer, token_type
from twoclocks.core.reading import read_file
from twoclocks.core.text import show
from twoclocks.data.text.options import TOKENS

MOST_CHARACTERS = 65_536  # distinct ones
MOST_TOKENIZER_BYTES = 1 << 26  # of a tokenizer.json
MOST_AT_ONCE = 1 << 22  # characters of a document for a tokenizer, which needs the whole document in memory
MOST_LOST = 0.01  # share of a text that a tokenizer may leave out or not know
CODE_POINTS = 0x110000
Codes = npt.NDArray[np.uint32]


class Encoder(Protocol):
    """Turns the parts of one document after another into tokens."""

    vocabulary: Vocabulary

    def encode(self, part: str) -> Tokens:
        """The tokens of the next part, as far as they do not depend on what follows."""

    def finish(self) -> Tokens:
        """The remaining tokens of the document; the next part begins a new one."""

    def lost(self) -> dict[str, int]:
        """What the tokens so far do not show, counted by name; UserError where that is much of the text."""


class Letters:
    """Lower case; everything that is not a to z becomes one space, as in text8.

    Spaces at the ends of a document are dropped, except where documents are blocks of one running text: there, the
    blocks of text8 in a row are text8.
    """

    vocabulary = Vocabulary("letters", LETTERS, len(LETTERS))

    def __init__(self, is_running: bool = False) -> None:
        self._is_running = is_running
        self._table = np.zeros(256, dtype=np.uint8)
        self._table[np.frombuffer(LETTERS.encode(), dtype=np.uint8)] = range(len(LETTERS))
        self._begin()

    def _begin(self) -> None:
        self._after_space = not self._is_running
        self._pending = False  # a space that is written if something follows it

    def encode(self, part: str) -> Tokens:
        # Python lowers a few characters beyond ASCII to a to z, such as the Kelvin sign; the rest becomes "?".
        tokens: npt.NDArray[np.uint8] = self._table[
            np.frombuffer(part.lower().encode("ascii", "replace"), dtype=np.uint8)
        ]
        if not len(tokens):
            return tokens
        before = np.concatenate([[0 if self._after_space else 1], tokens[:-1]])
        tokens = tokens[(tokens != 0) | (before != 0)]
        if not len(tokens):
            return tokens
        if self._pending:
            tokens = np.concatenate([np.zeros(1, dtype=np.uint8), tokens])
        self._after_space = self._pending = bool(tokens[-1] == 0)
        return tokens[:-1] if self._pending else tokens

    def finish(self) -> Tokens:
        left = np.zeros(int(self._pending and self._is_running), dtype=np.uint8)
        self._begin()
        return left

    def lost(self) -> dict[str, int]:
        return {}  # all that letters leave out is left out on purpose


class Characters:
    """Every distinct character of the text is a token, in the order of code points."""

    def __init__(self, parts: Iterable[str], name: str) -> None:
        """``parts``: the whole text, which is read once to find its characters."""
        seen = np.zeros(CODE_POINTS, dtype=bool)
        for part in parts:
            seen[_codes(part)] = True
        found = np.flatnonzero(seen)
        if len(found) > MOST_CHARACTERS:
            fix = "use --tokens bytes or a tokenizer"
            raise UserError(f"{name}: has {len(found):,} distinct characters, more than {MOST_CHARACTERS:,}; {fix}")
        self.vocabulary = Vocabulary("characters", "".join(map(chr, found)), max(1, len(found)))
        self._name, self._seen = name, seen
        self._table = np.zeros(CODE_POINTS, dtype=token_type(self.vocabulary.symbols))
        self._table[found] = np.arange(len(found))

    def encode(self, part: str) -> Tokens:
        codes = _codes(part)
        if not self._seen[codes].all():
            raise UserError(f"{self._name}: was changed while it was read; pack it again when nobody writes to it")
        return self._table[codes]

    def finish(self) -> Tokens:
        return self._table[:0]

    def lost(self) -> dict[str, int]:
        return {}


def _codes(part: str) -> Codes:
    return np.frombuffer(part.encode("utf-32-le"), dtype="<u4")


class Bytes:
    """The bytes of the text in UTF-8."""

    vocabulary = Vocabulary("bytes", "", 256)

    def encode(self, part: str) -> Tokens:
        return np.frombuffer(part.encode(), dtype=np.uint8)

    def finish(self) -> Tokens:
        return np.zeros(0, dtype=np.uint8)

    def lost(self) -> dict[str, int]:
        return {}


class HuggingFace:
    """A tokenizer from its ``tokenizer.json``; the file's own truncation, padding and special tokens do not apply."""

    def __init__(self, path: str) -> None:
        fix = f"use one of {', '.join(TOKENS)}, or the path of a tokenizer.json"
        data = read_file(path, MOST_TOKENIZER_BYTES, "tokens", fix)
        try:
            text = data.decode()
            tokenizer = open_tokenizer(text)
        except UnicodeDecodeError:
            raise UserError(f"tokens: {show(path)} is not UTF-8; {fix}") from None
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        tokenizer.no_truncation()  # else a long document would be cut without a word
        tokenizer.no_padding()
        self.vocabulary = Vocabulary("tokenizer", text, tokenizer.get_vocab_size())
        self._tokenizer: Any = tokenizer
        self._path = path
        self._unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
        self._counts = dict.fromkeys(("tokens", "unknown tokens", "characters", "lost characters"), 0)
        self._parts: list[str] = []
        self._length = 0

    def encode(self, part: str) -> Tokens:
        self._length += len(part)
        if self._length > MOST_AT_ONCE:
            fix = "use --documents paragraph, line or block"
            raise UserError(f"a document has more than {MOST_AT_ONCE:,} characters, too many for a tokenizer; {fix}")
        self._parts.append(part)
        return np.zeros(0, dtype=token_type(self.vocabulary.symbols))

    def finish(self) -> Tokens:
        text = "".join(self._parts)
        self._parts, self._length = [], 0
        try:
            encoding = self._tokenizer.encode(text, add_special_tokens=False)
        except Exception as error:  # the library raises plain Exception, such as for an unknown word
            fix = "use a tokenizer that knows every character, such as one of bytes"
            raise UserError(f"{self._path}: cannot encode {show(text[:40])} ({show(error)}); {fix}") from None
        found, symbols = np.array(encoding.ids, dtype=np.int64), self.vocabulary.symbols
        self._count(text, found, encoding.offsets)
        if len(found) and found.max() >= symbols:
            reason = f"gives the token {found.max():,}, but it has only {symbols:,}"
            raise UserError(f"{self._path}: {reason}; use a tokenizer whose tokens are 0 to {symbols - 1:,}")
        return found.astype(token_type(symbols))

    def _count(self, text: str, tokens: npt.NDArray[np.int64], offsets: list[tuple[int, int]]) -> None:
        """Count unknown tokens, and the characters (white space apart) that no token stands for."""
        ends = np.zeros(len(text) + 1, dtype=np.int64)
        for begin, end in offsets:
            ends[begin] += 1
            ends[end] -= 1
        shown = np.cumsum(ends[:-1]) > 0
        written = np.array([not character.isspace() for character in text], dtype=bool)
        self._counts["tokens"] += len(tokens)
        self._counts["unknown tokens"] += 0 if self._unknown is None else int((tokens == self._unknown).sum())
        self._counts["characters"] += int(written.sum())
        self._counts["lost characters"] += int((written & ~shown).sum())

    def lost(self) -> dict[str, int]:
        for part, whole in (("unknown tokens", "tokens"), ("lost characters", "characters")):
            share = self._counts[part] / max(1, self._counts[whole])
            if share > MOST_LOST:
                reason = f"does not know this text: {share:.1%} of its {whole} would be {part}"
                raise UserError(f"{self._path}: {reason}; use a tokenizer of this language, or one of bytes")
        return {name: self._counts[name] for name in ("unknown tokens", "lost characters")}
