"""What counts as a copy: equality, few differing entries, one neighbour far nearer than the next, or your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.rows import byte_keys

Rows = npt.NDArray[Any]  # (n, entries): whole numbers or fractions
Flags = npt.NDArray[np.bool_]
TILE = 1 << 24  # entries compared at once
PIECE = 1 << 10  # training rows compared at once: memory stays bounded whatever the training set


class Criterion(ABC):
    """Tells copies of training rows from other samples."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What counts as a copy, in words that are the same in every process."""

    @abstractmethod
    def found(self, samples: Rows, train: Rows) -> Flags:
        """Which samples (n, entries) are copies of a row of ``train`` (N, entries)."""

    def check(self, train: Rows) -> None:
        """Refuse a training set for which the criterion has no meaning; by default there is none."""
        return


@dataclass(frozen=True)
class Exact(Criterion):
    """Equal in every entry."""

    @property
    def name(self) -> str:
        return "copies"

    def found(self, samples: Rows, train: Rows) -> Flags:
        kind = common(samples.dtype, train.dtype)
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

    @property
    def name(self) -> str:
        return f"copies up to {self.most} entries"

    def __post_init__(self) -> None:
        if not isinstance(self.most, int) or self.most < 0:
            raise SettingError("most", self.most, "use a whole number of at least 0")

    def check(self, train: Rows) -> None:
        if self.most >= train.shape[1]:
            raise SettingError("most", self.most, f"rows have {train.shape[1]} entries; every sample would be a copy")

    def found(self, samples: Rows, train: Rows) -> Flags:
        kind = common(samples.dtype, train.dtype)
        samples, train = samples.astype(kind, copy=False), train.astype(kind, copy=False)
        hit = np.zeros(len(samples), dtype=np.bool_)
        for begin, rows in tiles(samples, min(len(train), PIECE) * train.shape[1]):
            for first in range(0, len(train), PIECE):
                near = (rows[:, None, :] != train[None, first : first + PIECE]).sum(-1) <= self.most
                hit[begin : begin + len(rows)] |= near.any(1)
        return hit


@dataclass(frozen=True)
class Ratio(Criterion):
    """Far nearer (Euclid) to one training row than to any other: distances in a ratio below ``below``."""

    below: float = 1 / 3

    @property
    def name(self) -> str:
        return f"copies by a distance ratio below {self.below:.3g}"

    def __post_init__(self) -> None:
        if not 0 < self.below <= 1:
            raise SettingError("below", self.below, "use a number above 0, at most 1")

    def check(self, train: Rows) -> None:
        if len(train) < 2:
            raise UserError(f"train: {len(train)} different rows; the ratio needs a nearest and a second nearest")

    def found(self, samples: Rows, train: Rows) -> Flags:
        centre = train.mean(0, dtype=np.float64)  # squares of numbers far from zero would drown the differences
        fixed = train - centre
        squares = (fixed**2).sum(1)
        hit = np.zeros(len(samples), dtype=np.bool_)
        for begin, rows in tiles(samples, len(train)):
            part = rows - centre
            distance = np.maximum((part**2).sum(1)[:, None] + squares - 2 * part @ fixed.T, 0.0)
            close = np.argpartition(distance, 1, axis=1)[:, :2]
            two = np.sort(((part[:, None, :] - fixed[close]) ** 2).sum(-1), axis=1)  # exact for the two that matter
            hit[begin : begin + len(rows)] = two[:, 0] < self.below**2 * two[:, 1]
        return hit


@dataclass(frozen=True)
class Distance(Criterion):
    """Nearer than ``below`` by your own distance: ``function(samples, train)`` gives (n,) or (n, N) numbers."""

    function: Callable[[Rows, Rows], Any]
    below: float

    @property
    def name(self) -> str:
        own = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"copies by {own} below {self.below:g}"

    def found(self, samples: Rows, train: Rows) -> Flags:
        distance = np.asarray(self.function(samples, train), dtype=np.float64)
        if distance.shape not in ((len(samples),), (len(samples), len(train))):
            expected = f"({len(samples)},) or ({len(samples)}, {len(train)})"
            raise UserError(f"function: it returned the shape {distance.shape}; return {expected}")
        if np.isnan(distance).any():
            raise UserError("function: it returned NaN; a distance that is missing must not count as no copy")
        return (distance if distance.ndim == 1 else distance.min(1)) < self.below


CRITERIA: dict[str, Criterion] = {"exact": Exact(), "hamming": Hamming(), "ratio": Ratio()}


def tiles(samples: Rows, cost: int) -> Iterator[tuple[int, Rows]]:
    """Pieces of the samples with where they begin, so that a piece times ``cost`` stays bounded."""
    size = max(1, TILE // max(cost, 1))
    return ((begin, samples[begin : begin + size]) for begin in range(0, len(samples), size))


def common(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """In which two arrays are compared: the narrower of two widths of fractions, since the wider was rounded to it."""
    return min(a, b, key=lambda kind: kind.itemsize) if a.kind == b.kind == "f" else np.promote_types(a, b)


def distinct(rows: Rows) -> Rows:
    """Every row once."""
    _, first = np.unique(byte_keys(rows), return_index=True)
    return rows[first]


def as_rows(values: Any, name: str) -> Rows:
    """Rows (n, entries) of fractions, as wide as they are, or of whole numbers, in as few bytes as they need.

    What could be a missing value is refused, never counted as no copy.
    """
    array = as_array(values, name)
    if array.dtype.kind not in "iubf":
        raise UserError(f"{name}: dtype {array.dtype} is not allowed; give whole numbers or fractions")
    if array.ndim < 2 or array.size == 0:
        raise UserError(f"{name}: shape {array.shape} is not allowed; give at least one row, as (n, entries)")
    flat = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        if not np.isfinite(flat).all():
            raise UserError(f"{name}: a value is NaN or infinite; a sample that is missing must not count as no copy")
        return np.ascontiguousarray(flat)
    least = np.result_type(*(np.min_scalar_type(int(end)) for end in (flat.min(), flat.max())))
    return np.ascontiguousarray(flat, dtype=least)


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """A numpy array of lists, arrays or tensors; half-precision fractions that numpy lacks are widened."""
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        values = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
    if np.ma.is_masked(values):
        raise UserError(f"{name}: some values are masked; a sample that is missing must not count as no copy")
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise UserError(f"{name}: it is no array ({error}); give rows of one length") from None
