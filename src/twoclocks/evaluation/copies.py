"""Exact copy detection on the device of the samples: rows are packed into words, words into one digest per row.

``core.rows`` has keys of rows on the host, for any array. They are not used here: samples on a GPU would have to be
copied to the host at every evaluation, and torch can neither compare nor search keys of several words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twoclocks.core.bits64 import WORD, scramble, signed
from twoclocks.core.lazy import torch
from twoclocks.core.rows import symbol_bits
from twoclocks.rules.base import in_range

if TYPE_CHECKING:
    from torch import Tensor

ENTRIES = {"cpu": 1 << 22, "cuda": 1 << 25}  # entries packed at once: 32 MiB as int64; 256 MiB on a GPU
ATTEMPTS = 64  # a seed fails about once in 2^65 / N² sets, so a second one is hardly ever needed


class Copies:
    """The distinct rows of a training set, sorted once, so that each sample is looked up by one binary search.

    Every row has a digest of 64 bits. Rows of one word are their own digest; for wider rows a seed is chosen under
    which no two distinct training rows share a digest, so a sample has one candidate at most, and is compared to it
    word by word. The result is exact, whatever the digests of the samples.

    >>> Copies(torch.tensor([[0, 1, 1], [1, 0, 1]]), symbols=2).found(torch.tensor([[1, 0, 1], [1, 1, 1]]))
    tensor([ True, False])
    """

    def __init__(self, train: Tensor, symbols: int) -> None:
        rows = checked_rows(train, symbols)
        self.symbols, self.length = symbols, rows.shape[1]
        words = packed(rows, symbols)
        for seed in range(ATTEMPTS):
            digests, order = digest(words, seed).sort()
            ordered = words[order]
            repeats = torch.zeros_like(digests, dtype=torch.bool)
            repeats[1:] = digests[1:] == digests[:-1]
            differs = torch.zeros_like(repeats)
            differs[1:] = (ordered[1:] != ordered[:-1]).any(dim=1)
            if not bool((repeats & differs).any()):
                self.seed, self.digests, self.words = seed, digests[~repeats], ordered[~repeats]
                return
        raise RuntimeError(f"{len(rows)} rows have equal digests under {ATTEMPTS} seeds; the digest is broken")

    def __len__(self) -> int:
        """Number of distinct rows."""
        return len(self.digests)

    def found(self, rows: Tensor) -> Tensor:
        """Which rows (n, …) equal a training row: bool (n,). Symbols that do not exist equal nothing."""
        rows = flat_rows(rows)
        if rows.shape[1] != self.length:
            raise ValueError(f"rows of {rows.shape[1]} entries, the training set has {self.length}")
        if not len(self):
            return torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        return torch.cat([self.found_piece(piece) for piece in pieces(rows)])

    def found_piece(self, rows: Tensor) -> Tensor:
        """``found`` for one block of rows."""
        words = pack(rows, self.symbols)
        wanted = digest(words, self.seed)
        place = torch.searchsorted(self.digests, wanted).clamp(max=len(self) - 1)
        return (self.words[place] == words).all(dim=1) & in_range(rows.long(), self.symbols)


def flat_rows(rows: Tensor) -> Tensor:
    """Rows (n, …) as (n, entries); n or entries may be 0."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def checked_rows(train: Tensor, symbols: int) -> Tensor:
    """Training rows as (N, entries); refuses values that are no symbols."""
    rows = flat_rows(train)
    if not all(bool(in_range(piece.long(), symbols).all()) for piece in pieces(rows)):
        raise ValueError(f"rows hold symbols outside 0..{symbols - 1}")
    return rows


def pieces(rows: Tensor) -> Iterator[Tensor]:
    """Consecutive blocks of rows of at most ``ENTRIES`` entries; at least one block, which may be empty."""
    most = ENTRIES["cuda" if rows.is_cuda else "cpu"]
    yield from rows.split(max(1, most // max(1, rows.shape[1])))


def packed(rows: Tensor, symbols: int) -> Tensor:
    """``pack`` for any number of rows, block by block."""
    return torch.cat([pack(piece, symbols) for piece in pieces(rows)])


def pack(rows: Tensor, symbols: int) -> Tensor:
    """Rows (n, entries) as words (n, words) of 64 bits, int64: equal if and only if the rows are."""
    bits = symbol_bits(symbols)
    per_word = WORD // bits
    count = max(1, -(-rows.shape[1] // per_word))
    # A product and a sum in place of shifts: a fifth of the time on the CPU. The last bit is the sign; it may wrap.
    places = torch.ones(per_word, dtype=torch.int64, device=rows.device) << torch.arange(
        0, per_word * bits, bits, device=rows.device
    )
    words = rows.new_empty((len(rows), count), dtype=torch.int64)
    for word in range(count):
        entries = rows[:, word * per_word : (word + 1) * per_word].long()
        words[:, word] = (entries * places[: entries.shape[1]]).sum(dim=1)
    return words


def digest(words: Tensor, seed: int) -> Tensor:
    """One digest per row (n,) of its words (n, words); different seeds give independent digests."""
    if words.shape[1] == 1:
        return words[:, 0].contiguous()
    state = torch.full_like(words[:, 0], signed((seed + 1) * 0x9E3779B97F4A7C15))
    for word in words.unbind(dim=1):
        state = scramble(state ^ word)
    return state
