"""Extractability: prompted with the first tokens of a piece of text, how often does a model continue it verbatim?

A model that never saw a piece may guess its continuation too, so the same is counted for held-out pieces. Prompts that
begin a training piece and also a held-out piece show neither, and are counted in no rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.series import Look
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.proportion import clopper_pearson
from twoclocks.core.rows import byte_keys
from twoclocks.monitor.inputs import Shown, as_array, as_values, called, checked_integer, checked_number

Tokens = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Generate = Callable[[Tokens, int], Any]  # prefixes (n, k), length → the next tokens of each (n, length)


@dataclass(frozen=True)
class Continued:
    """What a model made of the prompts of one set of pieces: ``hits`` of ``trials`` were continued verbatim."""

    tokens: Tokens  # (n,): how many tokens after the prefix are those of the piece, up to the first that is not
    counted: Flags  # (n,): False where the same prefix also begins a piece of the other set
    needed: int  # tokens from which on a piece counts as continued verbatim
    confidence: float

    @property
    def hits(self) -> int:
        return int((self.tokens[self.counted] >= self.needed).sum())

    @property
    def trials(self) -> int:
        return int(self.counted.sum())

    @property
    def rate(self) -> float:
        """Fraction of the pieces that are continued verbatim."""
        return self.hits / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Exact binomial interval (Clopper and Pearson) of the rate."""
        return self.bounds((1 - self.confidence) / 2)

    def bounds(self, tail: float) -> tuple[float, float]:
        """Ends of the interval that errs with the probability ``tail`` at most on either side."""
        low, high = clopper_pearson(self.hits, self.trials, tail)
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.hits} of {self.trials} ({self.rate:.1%}, {low:.1%}–{high:.1%})"


@dataclass(frozen=True)
class Extraction:
    """Extractability of training pieces beside that of held-out pieces, which is the chance level."""

    train: Continued
    held_out: Continued | None  # None: not asked, and the chance level is not known

    @property
    def difference(self) -> float | None:
        """Rate of training pieces minus rate of held-out pieces."""
        return None if self.held_out is None else self.train.rate - self.held_out.rate

    @property
    def difference_interval(self) -> tuple[float, float] | None:
        """Interval of the difference: it holds with at least the confidence, because all four ends do together."""
        if self.held_out is None:
            return None
        tail = (1 - self.train.confidence) / 4
        ours, theirs = self.train.bounds(tail), self.held_out.bounds(tail)
        return ours[0] - theirs[1], ours[1] - theirs[0]

    def look(self, step: int) -> Look:
        """The counts of one step, for ``Monitor.observe_counts``."""
        others = None if self.held_out is None else (self.held_out.hits, self.held_out.trials)
        controls = {} if others is None else {"held_out_copied": others[0], "held_out_trials": others[1]}
        return Look(step, self.train.hits, self.train.trials, **controls)

    def __str__(self) -> str:
        found = f"continued verbatim: training {self.train}"
        return found if self.held_out is None else f"{found}, held-out {self.held_out}"


def measure_extraction(
    train: Any,
    generate: Generate,
    held_out: Any | None = None,
    *,
    prefix: int = 32,
    tokens: int | None = 50,
    confidence: float = 0.95,
) -> Extraction:
    """Prompt a model with the first ``prefix`` tokens of each piece, and count the pieces that it continues verbatim.

    ``train`` and ``held_out`` are token ids (n, length) without padding; pieces should come from different documents.
    ``generate(prefixes, length)`` takes integers (n, prefix) and returns the next tokens, (n, length). A piece is
    continued verbatim if its next ``tokens`` tokens are all equal; None asks for the rest of the piece.

    >>> pieces, new = np.arange(20).reshape(2, 10), np.arange(40, 60).reshape(2, 10)
    >>> known = {0: pieces[0, 4:]}  # a model that has memorized the first piece, and else repeats 7
    >>> generate = lambda prefixes, n: [known.get(p[0], np.full(n, 7))[:n] for p in prefixes]
    >>> found = measure_extraction(pieces, generate, new, prefix=4, tokens=5)
    >>> found.train.tokens.tolist(), found.train.rate, found.held_out.rate
    ([5, 0], 0.5, 0.0)
    """
    checked_number("confidence", confidence, 0, 1, "use a number between 0 and 1, such as 0.95")
    ours = as_pieces(train, "train")
    theirs = None if held_out is None else as_pieces(held_out, "held_out")
    prompts = Prompts(ours, theirs, prefix, tokens)

    def continued(pieces: Tokens, name: str) -> Continued:
        """By its own piece: a model that continues another one with the same prefix has not continued this one."""
        asked = pieces[:, : prompts.prefix + prompts.tokens]
        rows = continue_pieces(asked, generate, prefix)
        both = prompts.outcomes(rows)
        only = (both.held_out if name == "train" else both.train) < 0  # the other set has this prefix too
        found = Continued(shared_beginning(rows, asked) - prompts.prefix, only, prompts.tokens, confidence)
        check_counted(found, name)
        return found

    counted = continued(ours, "train")
    return Extraction(counted, None if theirs is None else continued(theirs, "held_out"))


def continue_pieces(pieces: Any, generate: Generate, prefix: int) -> Tokens:
    """The first ``prefix`` tokens of each piece, and what ``generate`` makes of them: integers of the pieces' shape.

    This is what ``Monitor(…, copies=Extractable(prefix))`` observes.
    """
    given = as_pieces(pieces, "pieces")
    check_prefix(prefix, given.shape[1])
    n, length = len(given), given.shape[1] - prefix
    returned = called(generate, "generate", given[:, :prefix].copy(), length)
    found = as_array(returned, "generate")
    if found.shape != (n, length):
        fix = f"return the {length} tokens after the prefix, without it, as ({n}, {length})"
        raise UserError(f"generate: it returned the shape {found.shape} for {n} prefixes of {prefix} tokens; {fix}")
    if found.dtype.kind not in "iu":
        raise UserError(f"generate: it returned the dtype {found.dtype}; return token ids, which are integers")
    return np.concatenate([given[:, :prefix], found.astype(np.int64)], axis=1)


def as_pieces(pieces: Any, name: str) -> Tokens:
    """Pieces as token ids (n, length); UserError for anything else."""
    values = as_values(pieces, name)
    if values.dtype.kind not in "iu" or values.ndim != 2:
        given = f"{values.dtype} of shape {values.shape}"
        raise UserError(f"{name}: {given} is not allowed; give token ids, integers of shape (n, length)")
    return values.astype(np.int64)


def check_prefix(prefix: Any, length: int) -> None:
    """Raise SettingError unless pieces of ``length`` tokens have a rest after the prefix."""
    checked_integer("prefix", prefix, 1)
    if prefix >= length:
        raise SettingError("prefix", prefix, f"pieces have {length} tokens; use at most {length - 1}, or longer pieces")


def check_counted(found: Continued, name: str) -> None:
    if not found.trials:
        why = "every piece begins like a piece of the other set"
        raise UserError(f"{name}: {why}; give pieces of other documents, or a longer prefix")


class Outcomes(NamedTuple):
    """What became of rows that begin with the prefix of a piece, by set: integers (n,)."""

    train: Tokens  # tokens continued like a training piece; −1 where no training piece begins so
    held_out: Tokens  # the same for held-out pieces
    rows: Tokens  # a training piece that the row continues for longest; −1 where no training piece begins so


class Prompts:
    """Training and held-out pieces, to tell from a row which set it was prompted from and how far it continues it."""

    def __init__(self, train: Tokens, held_out: Tokens | None, prefix: int, tokens: int | None) -> None:
        length = train.shape[1]
        check_prefix(prefix, length)
        if held_out is not None and held_out.shape[1] != length:
            raise UserError(f"held_out: pieces of {held_out.shape[1]} tokens, the training set has {length}")
        if tokens is not None and checked_integer("tokens", tokens, 1) > length - prefix:
            fix = f"pieces have {length - prefix} tokens after the prefix; use at most so many, None, or longer pieces"
            raise SettingError("tokens", Shown(tokens), fix)
        self.prefix = int(prefix)
        self.tokens = length - self.prefix if tokens is None else int(tokens)
        end = self.prefix + self.tokens
        self._train = SortedRows(train[:, :end])
        self._held_out = None if held_out is None else SortedRows(held_out[:, :end])

    def outcomes(self, rows: Tokens) -> Outcomes:
        """How far each row (n, at least prefix + tokens) continues a piece that begins with the same prefix."""
        cut = rows[:, : self.prefix + self.tokens]
        ours, pieces = self._train.longest_beginnings(cut)
        theirs = np.full(len(cut), -1)
        if self._held_out is not None:
            theirs, _ = self._held_out.longest_beginnings(cut)
        begun, also = ours >= self.prefix, theirs >= self.prefix
        return Outcomes(
            np.where(begun, ours - self.prefix, -1),
            np.where(also, theirs - self.prefix, -1),
            np.where(begun, pieces, -1),
        )


class SortedRows:
    """Rows (N, length) in lexicographic order: a row that shares the longest beginning is a neighbour in it."""

    def __init__(self, rows: Tokens) -> None:
        keys = byte_keys(rows)  # in some order of the tokens; any will do, if all rows are compared in the same
        self.order = np.argsort(keys, kind="stable")
        self.keys, self.rows = keys[self.order], rows[self.order]

    def longest_beginnings(self, samples: Tokens) -> tuple[Tokens, Tokens]:
        """Length of the longest beginning that each sample (n, length) shares with a row, and the index of that row."""
        at = np.searchsorted(self.keys, byte_keys(samples))
        before, behind = np.maximum(at - 1, 0), np.minimum(at, len(self.rows) - 1)
        shared = [shared_beginning(samples, self.rows[place]) for place in (before, behind)]
        first = shared[0] > shared[1]
        return np.where(first, *shared), self.order[np.where(first, before, behind)]


def shared_beginning(a: Tokens, b: Tokens) -> Tokens:
    """How many entries are equal before the first that differs: integers (n,) of arrays (n, length)."""
    return np.asarray(np.logical_and.accumulate(a == b, axis=1).sum(axis=1), dtype=np.int64)
