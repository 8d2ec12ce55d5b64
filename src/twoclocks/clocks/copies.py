"""What counts as a copy: equality, few differing entries, one neighbour far nearer than the next, or your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError, UserError

Rows = npt.NDArray[Any]  # (n, entries): whole numbers or fractions
Flags = npt.NDArray[np.bool_]
TILE = 1 << 24  # entries compared at once: memory stays bounded whatever the training set


class Criterion(ABC):
    """Tells copies of training rows from other samples."""

    @abstractmethod
    def found(self, samples: Rows, train: Rows) -> Flags:
        """Which samples (n, entries) are copies of a row of ``train`` (N, entries)."""

    def check(self, train: Rows) -> None:
        """Refuse a training set for which the criterion has no meaning; by default there is none."""
        return


@dataclass(frozen=True)
class Exact(Criterion):
    """Equal in every entry."""

    def found(self, samples: Rows, train: Rows) -> Flags:
        kind = np.promote_types(samples.dtype, train.dtype)
        # The samples are the few: they are sorted, and the training rows looked up among them.
        few, place = np.unique(byte_keys(samples.astype(kind, copy=False)), return_inverse=True)
        keys = byte_keys(train.astype(kind, copy=False))
        at = np.minimum(np.searchsorted(few, keys), len(few) - 1)
        hit = np.zeros(len(few), dtype=np.bool_)
        hit[at[few[at] == keys]] = True
        return hit[place]


@dataclass(frozen=True)
class Hamming(Criterion):
    """At most ``most`` entries differ."""

    most: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.most, int) or self.most < 0:
            raise SettingError("most", self.most, "use a whole number of at least 0")

    def check(self, train: Rows) -> None:
        if self.most >= train.shape[1]:
            raise SettingError("most", self.most, f"rows have {train.shape[1]} entries; every sample would be a copy")

    def found(self, samples: Rows, train: Rows) -> Flags:
        done = [((part[:, None, :] != train[None]).sum(-1) <= self.most).any(1) for part in tiles(samples, train.size)]
        return np.concatenate(done)


@dataclass(frozen=True)
class Ratio(Criterion):
    """Far nearer (Euclid) to one training row than to any other: distances in a ratio below ``below``."""

    below: float = 1 / 3

    def __post_init__(self) -> None:
        if not 0 < self.below <= 1:
            raise SettingError("below", self.below, "use a number above 0, at most 1")

    def check(self, train: Rows) -> None:
        if len(train) < 2:
            raise UserError(f"train: {len(train)} different rows; the ratio needs a nearest and a second nearest")

    def found(self, samples: Rows, train: Rows) -> Flags:
        fixed = train.astype(np.float64)
        squares = (fixed**2).sum(1)
        done = []
        for part in tiles(samples.astype(np.float64), len(train)):
            distance = np.maximum((part**2).sum(1)[:, None] + squares - 2 * part @ fixed.T, 0.0)
            close = np.argpartition(distance, 1, axis=1)[:, :2]
            # Differences of large squares are inexact: the two that matter are computed anew.
            two = np.sort(((part[:, None, :] - fixed[close]) ** 2).sum(-1), axis=1)
            done.append(two[:, 0] < self.below**2 * two[:, 1])
        return np.concatenate(done)


@dataclass(frozen=True)
class Distance(Criterion):
    """Nearer than ``below`` by your own distance: ``function(samples, train)`` gives (n,) or (n, N) numbers."""

    function: Callable[[Rows, Rows], Any]
    below: float

    def found(self, samples: Rows, train: Rows) -> Flags:
        distance = np.asarray(self.function(samples, train), dtype=np.float64)
        if distance.shape not in ((len(samples),), (len(samples), len(train))):
            expected = f"({len(samples)},) or ({len(samples)}, {len(train)})"
            raise UserError(f"function: it returned the shape {distance.shape}; return {expected}")
        if np.isnan(distance).any():
            raise UserError("function: it returned NaN; a distance that is missing must not count as no copy")
        return (distance if distance.ndim == 1 else distance.min(1)) < self.below


CRITERIA: dict[str, Criterion] = {"exact": Exact(), "hamming": Hamming(), "ratio": Ratio()}


def tiles(samples: Rows, cost: int) -> Iterator[Rows]:
    """Pieces of the samples, so that a piece times ``cost`` stays bounded."""
    size = max(1, TILE // max(cost, 1))
    return (samples[begin : begin + size] for begin in range(0, len(samples), size))


def distinct(rows: Rows) -> Rows:
    """Every row once."""
    _, first = np.unique(byte_keys(rows), return_index=True)
    return rows[first]


def byte_keys(rows: Rows) -> npt.NDArray[np.void]:
    """One key a row, equal where the rows are; −0.0 is 0.0."""
    plain = np.ascontiguousarray(rows + 0.0 if rows.dtype.kind == "f" else rows)
    return plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()


def as_rows(values: Any, name: str) -> Rows:
    """Rows (n, entries) of fractions (float64) or of whole numbers, in as few bytes as they need.

    What could be a missing value is refused, never counted as no copy.
    """
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    if array.dtype.kind not in "iubf":
        raise UserError(f"{name}: dtype {array.dtype} is not allowed; give whole numbers or fractions")
    if array.ndim < 2 or array.size == 0:
        raise UserError(f"{name}: shape {array.shape} is not allowed; give at least one row, as (n, entries)")
    flat = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        if not np.isfinite(flat).all():
            raise UserError(f"{name}: a value is NaN or infinite; a sample that is missing must not count as no copy")
        return np.ascontiguousarray(flat, dtype=np.float64)
    least = np.result_type(*(np.min_scalar_type(int(end)) for end in (flat.min(), flat.max())))
    return np.ascontiguousarray(flat, dtype=least)
