"""Copies of text: a sample shares a long run of consecutive tokens with a training text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.suffix_array import Runs, SuffixArray, Tokens
from twoclocks.core.text import show
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matches
from twoclocks.monitor.inputs import Shown, called, checked_integer
from twoclocks.monitor.training_set import Kind, TrainingSet

log = logging.getLogger("twoclocks")


@CRITERIA.register("verbatim")
@dataclass(frozen=True)
class Verbatim(Criterion):
    """A copy shares a run of at least ``tokens`` consecutive tokens with one training text.

    Texts are strings, which ``split`` divides into tokens (default: words; ``split=list`` for characters, or your
    tokenizer), or rows of token ids. ``padding`` is the token that fills up rows of equal length; it is never copied.
    To prepare a million training tokens takes 1 to 2 s and 100 MB (measured); 8 bytes per token are kept.
    """

    tokens: int = 50
    split: Callable[[str], Iterable[Any]] = str.split
    padding: int | str | None = None
    kinds: ClassVar[frozenset[Kind]] = frozenset({"integers", "texts"})
    about: ClassVar[str] = "it shares a run of at least `tokens` consecutive tokens (default 50) with a training text"
    data: ClassVar[str] = "text: strings or token ids"

    @property
    def name(self) -> str:
        own = getattr(self.split, "__qualname__", type(self.split).__qualname__)
        split = "" if self.split is str.split else f" split by {own}"
        padding = "" if self.padding is None else f" without {self.padding!r}"
        return f"copies by a run of {self.tokens} tokens{split}{padding}"

    def __post_init__(self) -> None:
        checked_integer("tokens", self.tokens, 1)
        if not isinstance(self.padding, int | str | np.integer | None):
            raise SettingError("padding", Shown(self.padding), "use a token: an integer or a text")
        if not callable(self.split):
            raise SettingError(
                "split", Shown(self.split), "use a function from a string to a list of tokens, such as str.split"
            )

    def matcher(self, train: TrainingSet) -> VerbatimMatcher:
        self.check_kind(train)
        if train.kind == "integers" and len(train.shape) != 1:
            raise UserError(
                f"copies: 'verbatim' needs rows of token ids (n, length); the rows have shape {train.shape}"
            )
        return VerbatimMatcher(self, train)


def warn_of_texts(texts: Sequence[Tokens], criterion: Verbatim) -> None:
    """Warn of texts that no sample can copy, because they are too short, and of long runs of one token."""
    short = sum(len(text) < criterion.tokens for text in texts)
    if short:
        what = f"{short} of {len(texts)} texts have fewer than {criterion.tokens} tokens, so that they cannot be copied"
        log.warning(f"train: {what}; use fewer with Verbatim(tokens=…), or split=list for characters")
    repeated = sum(longest_repeat(text) >= criterion.tokens for text in texts)
    if repeated and criterion.padding is None:
        what = f"{repeated} of {len(texts)} texts repeat one token {criterion.tokens} times in a row"
        log.warning(f"train: {what}; if it is padding, give Verbatim(padding=…), or each sample with it is a copy")


def longest_repeat(tokens: Tokens) -> int:
    """Length of the longest run of one token."""
    ends = np.flatnonzero(np.diff(tokens, append=-3))
    return int(np.diff(ends, prepend=-1).max(initial=0))


def tokens_by(split: Callable[[str], Iterable[Any]], text: str) -> list[Any]:
    """The tokens of a string by a function of the user."""
    found = called(split, "split", text)
    if isinstance(found, dict) or not isinstance(found, Iterable) or getattr(found, "ndim", 1) != 1:
        raise UserError(f"split: it returned {show(found)}; return a list of tokens")
    tokens: list[Any] = called(list, "split", found)
    for token in tokens:
        if not isinstance(token, Hashable) or hasattr(token, "detach") or isinstance(token, np.void):
            raise UserError(f"split: it returned the token {show(token)}; return texts or integers")
    return tokens


UNSEEN, PADDING = -1, -2  # tokens of a sample that no training text can share


class VerbatimMatcher:
    """Finds the longest run of tokens that each sample shares with a training text."""

    def __init__(self, criterion: Verbatim, train: TrainingSet) -> None:
        self.criterion, self.number = criterion, len(train)
        texts: list[Any] = train.texts if train.kind == "texts" else [row for form in train.forms() for row in form]
        self.strings = isinstance(texts[0], str)
        self.ids: dict[Any, int] = {}
        numbered = []
        for place, text in enumerate(texts):
            tokens = self.split(text, "train", place)
            for token in dict.fromkeys(tokens):
                self.ids.setdefault(token, len(self.ids))
            numbered.append(self.numbered(tokens))
        longest = max(map(len, numbered))
        if longest < criterion.tokens:
            problem = f"training texts have at most {longest} tokens, so that no sample could be a copy"
            fix = "use fewer, or split=list (characters) where spaces do not separate words"
            raise SettingError("tokens", criterion.tokens, f"{problem}; {fix}")
        warn_of_texts(numbered, criterion)
        if criterion.padding is not None:
            self.ids[criterion.padding] = PADDING  # from here on: in samples it is not what it is in training texts
        self.suffixes = SuffixArray(numbered)

    def __call__(self, samples: Any, device: str = "cpu") -> Matches:
        """Matches of texts; the distance is the number of a sample's tokens outside its longest run."""
        numbered = self.read(samples)
        runs = self.runs(numbered)
        lengths = np.array([np.count_nonzero(tokens != PADDING) for tokens in numbered], dtype=np.int64)
        return Matches(runs.lengths >= self.criterion.tokens, runs.texts, (lengths - runs.lengths).astype(np.float64))

    def longest_runs(self, samples: Any) -> Runs:
        """The longest run of each sample: length, start in the sample, training text, start in the text (in tokens)."""
        return self.runs(self.read(samples))

    def runs(self, samples: Sequence[Tokens]) -> Runs:
        found = self.suffixes.longest_runs(samples)
        # Forms by declared symmetries lie behind the rows themselves.
        return found._replace(texts=np.where(found.texts < 0, -1, found.texts % self.number))

    def read(self, samples: Any) -> list[Tokens]:
        """Token ids of each sample."""
        return [self.numbered(self.split(sample, "samples", place)) for place, sample in enumerate(samples)]

    def numbered(self, tokens: list[Any]) -> Tokens:
        return np.fromiter(map(self.ids.get, tokens, repeat(UNSEEN)), dtype=np.int64, count=len(tokens))

    def split(self, text: Any, name: str, place: int) -> list[Any]:
        """Tokens of a text; UserError where it is a string and others are token ids, or the reverse."""
        if isinstance(text, str) != self.strings:
            kinds = ("strings", "token ids") if self.strings else ("token ids", "strings")
            raise UserError(
                f"{name}: text {place} has {kinds[1]}, the training set has {kinds[0]}; give both as one kind"
            )
        if isinstance(text, str):
            return tokens_by(self.criterion.split, text)
        return np.asarray(text).tolist() if hasattr(text, "dtype") else list(text)
