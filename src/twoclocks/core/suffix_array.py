"""Suffix array of many texts of integer tokens, and the longest run of tokens that a sample shares with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int64]  # (length,): token ids of 0 or more; in a sample −1 is a token that no text has
Indices = npt.NDArray[Any]  # integers


class Runs(NamedTuple):
    """The longest run that each sample shares with a text: integer arrays (n,); −1 where there is none."""

    lengths: npt.NDArray[np.int64]  # in tokens; 0 where no token is shared
    starts: npt.NDArray[np.int64]  # place of the run's first token in the sample
    texts: npt.NDArray[np.int64]  # index of a text that has the run
    text_starts: npt.NDArray[np.int64]  # place of the run's first token in that text


@dataclass(frozen=True)
class Intervals:
    """Suffixes ``low … high − 1`` of the suffix array, for each of some positions; empty where low = high."""

    low: Indices
    high: Indices

    def of(self, places: Indices) -> Intervals:
        return Intervals(self.low[places], self.high[places])

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.low < self.high)


Level = tuple[Indices, Intervals]  # positions in order, and an interval for each


class SuffixArray:
    """All suffixes of the texts in sorted order; a run of tokens is an interval of them.

    >>> runs = SuffixArray([np.array([1, 2, 3, 4]), np.array([3, 4, 5])]).longest_runs([np.array([0, 3, 4, 5, 1])])
    >>> tuple(int(values[0]) for values in runs)
    (3, 1, 1, 0)
    """

    def __init__(self, texts: Sequence[Tokens]) -> None:
        # Each text ends with a separator of its own, which no sample has: no run crosses two texts, and no two suffixes
        # are equal. Separators come first in the order.
        number = len(texts)
        wide = [np.asarray(text, dtype=np.int64) for text in texts]  # small integers would overflow
        tokens = np.concatenate([piece for i, text in enumerate(wide) for piece in (text + number, np.array([i]))])
        self.begins = np.concatenate([[0], np.cumsum([len(text) + 1 for text in texts])])
        self.ids = int(tokens.max()) + 1 - number  # ids of tokens are below
        self.first = np.concatenate([[0], np.cumsum(np.bincount(tokens, minlength=number))])[number:]
        kind = np.int32 if len(tokens) < 2**31 else np.int64
        order, rank = sorted_suffixes(tokens)
        self.order, self.rank = order.astype(kind), rank.astype(kind)

    def longest_runs(self, samples: Sequence[Tokens]) -> Runs:
        """The longest run of each sample: the first in the sample where several are as long."""
        lengths = np.array([len(sample) for sample in samples], dtype=np.int64)
        nothing = [np.full(1, -1)]  # after each sample, so that no run crosses two samples
        wide = [np.asarray(sample, dtype=np.int64) for sample in samples]
        tokens = np.concatenate([part for sample in wide for part in (sample, *nothing)] or nothing)
        begins = np.concatenate([[0], np.cumsum(lengths + 1)])[:-1]
        owner = np.repeat(np.arange(len(samples)), lengths + 1)
        return self.best_of_samples(tokens, begins, owner)

    def best_of_samples(self, tokens: Tokens, begins: Indices, owner: Indices) -> Runs:
        """The longest run of each sample, where ``owner`` is the sample of each token."""
        runs = Runs(np.zeros(len(begins), dtype=np.int64), *(np.full(len(begins), -1) for _ in range(3)))
        levels = self.doubled(tokens)
        top = np.full(len(begins), -1)
        for level, (places, _) in enumerate(levels):
            top[owner[places]] = level
        for level, (places, intervals) in enumerate(levels):
            longest = np.flatnonzero(top[owner[places]] == level)  # elsewhere the sample has a run of twice the length
            if not len(longest):
                continue
            lengths, intervals = self.extended(places[longest], intervals.of(longest), levels[:level])
            places = places[longest]
            order = np.lexsort((places, -lengths, owner[places]))
            samples, first = np.unique(owner[places][order], return_index=True)
            best = order[first]
            at = self.order[intervals.low[best]].astype(np.int64)
            text = np.searchsorted(self.begins, at, side="right") - 1
            runs.lengths[samples], runs.starts[samples] = lengths[best], places[best] - begins[samples]
            runs.texts[samples], runs.text_starts[samples] = text, at - self.begins[text]
        return runs

    def doubled(self, tokens: Tokens) -> list[Level]:
        """For 1, 2, 4, … tokens: the positions at which a shared run of so many tokens begins, and its interval."""
        places = np.flatnonzero((tokens >= 0) & (tokens < self.ids))
        intervals = Intervals(self.first[tokens[places]], self.first[tokens[places] + 1])
        kept = np.flatnonzero(intervals.found)
        levels: list[Level] = []
        while len(kept):
            places, intervals = places[kept], intervals.of(kept)
            levels.append((places, intervals))
            # A run of 2k tokens is a run of k tokens, and another one k places later.
            half = 1 << len(levels) - 1
            first, second = common(places + half, places)
            places, intervals = places[first], self.narrowed(intervals.of(first), intervals.of(second), half)
            kept = np.flatnonzero(intervals.found)
        return levels

    def extended(self, places: Indices, intervals: Intervals, levels: list[Level]) -> tuple[Indices, Intervals]:
        """The length of the longest run at each place, known to lie between 2**len(levels) and twice that."""
        lengths = np.full(len(places), 1 << len(levels))
        low, high = intervals.low.copy(), intervals.high.copy()
        for level in reversed(range(len(levels))):
            ours, theirs = common(places + lengths, levels[level][0])
            longer = self.narrowed(Intervals(low[ours], high[ours]), levels[level][1].of(theirs), lengths[ours])
            kept = np.flatnonzero(longer.found)
            low[ours[kept]], high[ours[kept]] = longer.low[kept], longer.high[kept]
            lengths[ours[kept]] += 1 << level
        return lengths, Intervals(low, high)

    def narrowed(self, intervals: Intervals, then: Intervals, offset: Any) -> Intervals:
        """The suffixes of each interval that continue, ``offset`` tokens later, with a suffix of another interval."""
        return Intervals(self.search(intervals, then.low, offset), self.search(intervals, then.high, offset))

    def search(self, intervals: Intervals, least: Indices, offset: Any) -> Indices:
        """First suffix of each interval whose suffix ``offset`` tokens later has at least the rank ``least``.

        The suffixes of an interval begin with the same tokens, so they are in the order of their continuations.
        """
        low, high = intervals.low.copy(), intervals.high.copy()
        offset = np.broadcast_to(offset, low.shape)
        active = np.flatnonzero(low < high)
        while len(active):
            middle = (low[active] + high[active]) // 2
            before = self.rank[self.order[middle] + offset[active]] < least[active]
            low[active] = np.where(before, middle + 1, low[active])
            high[active] = np.where(before, high[active], middle)
            active = active[low[active] < high[active]]
        return low


def common(wanted: Indices, among: Indices) -> tuple[Indices, Indices]:
    """The values that occur in both: their indices in ``wanted`` and in ``among``, which is in order."""
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    there = np.flatnonzero(among[at] == wanted)
    return there, at[there]


def sorted_suffixes(tokens: Tokens) -> tuple[Indices, Indices]:
    """The first places of all suffixes in sorted order, and the rank of the suffix at each place: (length,) each.

    Prefix doubling (Larsson and Sadakane): once suffixes are in the order of their first k tokens, the ranks k places
    later give the order of the first 2k. Only suffixes that are still equal to another one are sorted again. The last
    token must be unlike all others.
    """
    size = len(tokens)
    order = np.argsort(tokens)
    rank = np.empty(size, dtype=np.int64)
    slots = np.arange(size)  # places in ``order`` that are not settled
    keys = tokens[order]
    length = 1
    while True:
        new = np.concatenate([[True], keys[1:] != keys[:-1]])  # the first suffix of each group of equal ones
        rank[order[slots]] = slots[np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))]
        unsettled = ~(new & np.concatenate([new[1:], [True]]))
        slots = slots[unsettled]
        if not len(slots):
            return order, rank
        suffixes = order[slots]
        keys = rank[suffixes] * size + rank[suffixes + length]
        within = np.argsort(keys)
        order[slots], keys = suffixes[within], keys[within]
        length *= 2
