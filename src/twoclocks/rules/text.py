"""Text: pieces of a packed text, of a fixed length. A text has no rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.packed_file import OpenFiles
from twoclocks.core.packed_text import PackedText, read_packed_text
from twoclocks.core.seeds import numpy_stream, random_order
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule, in_range

if TYPE_CHECKING:
    from torch import Tensor

BUILT_IN = "kjv"  # chapters of the King James Bible, in the 27 characters of text8
FEWEST_PIECES = 3  # two to train on and one to hold out
CHUNK = 1 << 15  # pieces that are read at once: a corpus may be larger than the memory
OPEN = OpenFiles(read_packed_text)
Digests = npt.NDArray[np.uint64]  # (n, 2)


@RULES.register("text")
@dataclass(frozen=True, kw_only=True)
class Text(Rule):
    """Non-overlapping pieces of the documents of a packed text (``twoclocks data pack``), equal ones once.

    There is no rule that a new string could obey or break: runs have the clocks of copies, of the loss gap and of
    quality. Whole documents are held out, so that no piece is the neighbour of one that was trained on. ``is_valid``
    says whether a string is one of the pieces.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"length": 64}, {"length": 16})
    has_rule: ClassVar[bool] = False
    is_text: ClassVar[bool] = True
    is_corpus: ClassVar[bool] = True
    uniform_parts: ClassVar[bool] = False  # pieces of held-out documents are not drawn

    length: int = setting(256, "tokens per string", at_least=1, at_most=MOST_ENTRIES)
    file: str = setting(
        BUILT_IN, "a file of twoclocks data pack; kjv: parts of the King James Bible, letters and spaces, built in"
    )
    sha256: str = setting("", "SHA-256 of tokens, documents and vocabulary; filled in if empty, checked if given")
    held_out: float = setting(0.2, "share of the documents that no run trains on", above=0, below=1)

    def check(self) -> None:
        if self.file != BUILT_IN:  # a run must find its text from any working directory
            object.__setattr__(self, "file", str(Path(self.file).absolute()))
        packed = packed_text(self.file)
        if self.sha256 not in ("", packed.digest):
            fix = f"the text of {self.file!r} has {packed.digest[:16]}…; use that text, or leave sha256 out"
            raise SettingError("sha256", self.sha256, fix)
        object.__setattr__(self, "sha256", packed.digest)
        if len(packed) < 2:
            fix = f"the text of {self.file!r} is one document; pack it with --documents line, paragraph or block"
            raise SettingError("held_out", self.held_out, fix)
        pieces = self.pieces
        if len(pieces.train) < 2 or not len(pieces.held_out):
            longest = int(np.diff(packed.starts).max())
            fix = (
                f"{len(pieces.train):,} and {len(pieces.held_out):,} pieces remain to train on and to hold out; the "
                f"longest of {len(packed):,} documents has {longest:,} tokens. "
            )
            if len(pieces.train) + len(pieces.held_out) >= FEWEST_PIECES:
                raise SettingError("held_out", self.held_out, fix + "Use a share nearer to 0.5")
            raise SettingError("length", self.length, fix + "Use a smaller length or another text")

    @property
    def packed(self) -> PackedText:
        return packed_text(self.file, self.sha256)

    @property
    def pieces(self) -> Pieces:
        return text_pieces(self.file, self.sha256, self.length, self.held_out)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def symbols(self) -> int:
        return self.packed.vocabulary.symbols

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        train = self.listed()
        return train[rng.integers(0, len(train), size=n)]

    def listed(self) -> Rows:
        """The pieces of all documents but those that are held out."""
        return Rows(self.packed, self.length, self.pieces.train)

    def unseen(self) -> Rows:
        """The pieces of the documents that are held out."""
        return Rows(self.packed, self.length, self.pieces.held_out)

    def support(self) -> int:
        return len(self.pieces.train)

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"string": x.reshape(len(x), 1, self.length)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        known = in_range(x, self.symbols)
        wanted = digests_of(torch.where(known[:, None], x, 0).cpu().numpy())
        found = torch.from_numpy(np.isin(as_keys(wanted), self.pieces.keys))
        return {"string": (found.to(x.device) & known)[:, None]}

    def count(self) -> int:
        return len(self.pieces.train) + len(self.pieces.held_out)

    def part_counts(self) -> dict[str, int]:
        return {"string": self.count()}

    def members(self) -> Tensor:
        return torch.from_numpy(self.listed()[np.arange(self.support())].astype(np.int64))

    def as_text(self, x: Tensor) -> list[str]:
        """Tokens (n, length) as Python strings."""
        vocabulary = self.packed.vocabulary
        return [vocabulary.decode(row) for row in x.tolist()]

    def characters_per_token(self, x: Tensor) -> float | None:
        return self.packed.characters_per_token(x.cpu().numpy())


@dataclass(frozen=True)
class Pieces:
    """Where the distinct pieces of a text begin, by split, and a key for each of them."""

    train: npt.NDArray[np.int64]
    held_out: npt.NDArray[np.int64]
    keys: npt.NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Pieces of a text as rows (n, length) that are read when they are asked for."""

    packed: PackedText
    length: int
    starts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: Any) -> Array:
        """The rows of an array of indices."""
        rows: Array = self.packed.tokens[self.starts[index][:, None] + np.arange(self.length)]
        return rows


def packed_text(file: str, digest: str = "") -> PackedText:
    """The packed text of a file, read and checked once; with a digest, the text that it had then."""
    try:
        return OPEN.get(Path(__file__).with_name("kjv.safetensors") if file == BUILT_IN else Path(file), digest)
    except UserError as error:
        raise SettingError("file", file, str(error)) from None


@lru_cache(maxsize=16)
def text_pieces(file: str, digest: str, length: int, share: float) -> Pieces:
    """Cut all documents into pieces; a piece that occurs twice counts where it comes first, training documents first.

    So no held-out piece equals one that may be trained on.
    """
    packed = packed_text(file, digest)
    numbers = np.diff(packed.starts) // length  # pieces per document
    document = np.repeat(np.arange(len(packed)), numbers)
    place = np.arange(len(document)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    starts = packed.starts[document] + length * place
    order = random_order(len(packed), 0, "order of documents")
    is_held_out = np.zeros(len(packed), dtype=bool)
    is_held_out[order[: max(1, round(share * len(packed)))]] = True
    held_out = is_held_out[document]
    keys = as_keys(piece_digests(packed, length, starts))
    by_split = np.argsort(held_out, kind="stable")
    _, first = np.unique(keys[by_split], return_index=True)
    kept = np.sort(by_split[first])
    return Pieces(starts[kept][~held_out[kept]], starts[kept][held_out[kept]], keys[kept])


def piece_digests(packed: PackedText, length: int, starts: npt.NDArray[np.int64]) -> Digests:
    """Digests (n, 2) of the pieces at these places, a chunk at a time."""
    rows = Rows(packed, length, starts)
    parts = [digests_of(rows[np.arange(at, min(at + CHUNK, len(rows)))]) for at in range(0, len(rows), CHUNK)]
    return np.concatenate([np.zeros((0, 2), dtype=np.uint64), *parts])


def digests_of(rows: npt.NDArray[Any]) -> Digests:
    """Two sums of 64 bits per row (n, length), with a random weight for every place: equal rows have equal sums.

    Two different rows have the same two sums with a probability below 2⁻⁹⁰, for tokens below 65,536.
    """
    odd = numpy_stream(0, "weights of tokens").integers(0, 2**63, size=(2, rows.shape[1]), dtype=np.uint64) * 2 + 1
    wide = rows.astype(np.uint64) + np.uint64(1)
    return np.stack([(wide * weights).sum(axis=1, dtype=np.uint64) for weights in odd.astype(np.uint64)], axis=1)


def as_keys(digests: Digests) -> npt.NDArray[Any]:
    """One comparable key per row of digests."""
    return np.ascontiguousarray(digests).view(np.dtype((np.void, 16))).ravel()
