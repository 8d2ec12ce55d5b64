"""Copies up to a few entries: the Hamming distance to a training row is small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twoclocks.core.errors import SettingError
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matcher, Matches
from twoclocks.monitor.criteria.exact import check_floats
from twoclocks.monitor.inputs import Values, checked_flag, checked_integer
from twoclocks.monitor.training_set import TrainingSet, common_dtype, flat

TILE = 1 << 24  # most entries compared at once
PIECE = 1 << 10  # training rows compared at once: bounds the memory for training sets of any size


@CRITERIA.register("hamming")
@dataclass(frozen=True)
class Hamming(Criterion):
    """A copy differs from a training row in at most ``most`` entries."""

    most: int = 1
    floats: bool = False
    about: ClassVar[str] = "it differs from a training row in at most `most` entries (default 1)"
    data: ClassVar[str] = "symbols, tokens, grids with noise"

    @property
    def name(self) -> str:
        return f"copies up to {self.most} entries"

    def __post_init__(self) -> None:
        checked_integer("most", self.most, 0)
        checked_flag("floats", self.floats)

    def matcher(self, train: TrainingSet) -> Matcher:
        check_floats(self, train)
        entries = flat(train.values).shape[1]
        if self.most >= entries:
            raise SettingError("most", self.most, f"rows have {entries} entries; every sample would be a copy")

        def match(samples: Any, device: str = "cpu") -> Matches:
            rows = np.zeros(len(samples), dtype=np.int64)
            distances = np.full(len(samples), np.inf)
            for form in train.forms():
                found, distance = nearest_by_hamming(flat(samples), flat(form))
                nearer = distance < distances
                rows, distances = np.where(nearer, found, rows), np.where(nearer, distance, distances)
            return Matches(distances <= self.most, rows, distances)

        return match


def nearest_by_hamming(samples: Values, train: Values) -> tuple[Any, Any]:
    """The nearest training row of each sample, and the number of differing entries: (n,) each."""
    kind = common_dtype(samples.dtype, train.dtype)
    samples, train = samples.astype(kind, copy=False), train.astype(kind, copy=False)
    rows = np.zeros(len(samples), dtype=np.int64)
    distances = np.full(len(samples), np.inf)
    for begin, part in tiles(samples, min(len(train), PIECE) * train.shape[1]):
        here = slice(begin, begin + len(part))
        for first in range(0, len(train), PIECE):
            differing = (part[:, None, :] != train[None, first : first + PIECE]).sum(-1)
            best = differing.argmin(1)
            least = np.take_along_axis(differing, best[:, None], 1)[:, 0]
            nearer = least < distances[here]
            rows[here] = np.where(nearer, first + best, rows[here])
            distances[here] = np.where(nearer, least, distances[here])
    return rows, distances


def tiles(samples: Values, cost: int) -> Iterator[tuple[int, Values]]:
    """Chunks of the samples, each with its first index; rows per chunk times ``cost`` is at most ``TILE``."""
    size = max(1, TILE // max(cost, 1))
    return ((begin, samples[begin : begin + size]) for begin in range(0, len(samples), size))
