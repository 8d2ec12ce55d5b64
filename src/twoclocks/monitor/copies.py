"""Copy criteria: equality, few differing entries, a distance ratio, or a distance of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.rows import byte_keys

Rows = npt.NDArray[Any]  # (n, entries): integers or floats
Flags = npt.NDArray[np.bool_]
TILE = 1 << 24  # most entries compared at once
PIECE = 1 << 10  # training rows compared at once: bounds the memory for training sets of any size


class Criterion(ABC):
    """Base class: decides which samples are copies of training rows."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Text that defines a copy; it is stored with the monitor's state, so it must not change between processes."""

    @abstractmethod
    def is_copy(self, samples: Rows, train: Rows) -> Flags:
        """Whether each sample (n, entries) is a copy of a row of ``train`` (N, entries): bool (n,)."""

    def check(self, train: Rows) -> None:
        """Raise an error if the criterion is not defined for this training set; by default it is for all."""
        return


@dataclass(frozen=True)
class Exact(Criterion):
    """A copy is equal to a training row in every entry."""

    @property
    def name(self) -> str:
        return "copies"

    def is_copy(self, samples: Rows, train: Rows) -> Flags:
        kind = comparison_dtype(samples.dtype, train.dtype)
        # There are fewer samples than training rows: sort the samples, and search each training row among them.
        unique, place = np.unique(byte_keys(samples.astype(kind, copy=False)), return_inverse=True)
        keys = byte_keys(train.astype(kind, copy=False))
        at = np.minimum(np.searchsorted(unique, keys), len(unique) - 1)
        hit = np.zeros(len(unique), dtype=np.bool_)
        hit[at[unique[at] == keys]] = True
        return hit[place]


@dataclass(frozen=True)
class Hamming(Criterion):
    """A copy differs from a training row in at most ``most`` entries."""

    most: int = 1

    @property
    def name(self) -> str:
        return f"copies up to {self.most} entries"

    def __post_init__(self) -> None:
        if not isinstance(self.most, int) or self.most < 0:
            raise SettingError("most", self.most, "use an integer of at least 0")

    def check(self, train: Rows) -> None:
        if self.most >= train.shape[1]:
            raise SettingError("most", self.most, f"rows have {train.shape[1]} entries; every sample would be a copy")

    def is_copy(self, samples: Rows, train: Rows) -> Flags:
        kind = comparison_dtype(samples.dtype, train.dtype)
        samples, train = samples.astype(kind, copy=False), train.astype(kind, copy=False)
        hit = np.zeros(len(samples), dtype=np.bool_)
        for begin, rows in tiles(samples, min(len(train), PIECE) * train.shape[1]):
            for first in range(0, len(train), PIECE):
                near = (rows[:, None, :] != train[None, first : first + PIECE]).sum(-1) <= self.most
                hit[begin : begin + len(rows)] |= near.any(1)
        return hit


@dataclass(frozen=True)
class Ratio(Criterion):
    """A copy is much nearer (Euclidean) to one training row than to any other: ratio of distances below ``below``."""

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

    def is_copy(self, samples: Rows, train: Rows) -> Flags:
        centre = train.mean(
            0, dtype=np.float64
        )  # without it, values far from zero would lose the differences to rounding
        fixed = train - centre
        squares = (fixed**2).sum(1)
        hit = np.zeros(len(samples), dtype=np.bool_)
        for begin, rows in tiles(samples, len(train)):
            part = rows - centre
            distance = np.maximum((part**2).sum(1)[:, None] + squares - 2 * part @ fixed.T, 0.0)
            close = np.argpartition(distance, 1, axis=1)[:, :2]
            two = np.sort(((part[:, None, :] - fixed[close]) ** 2).sum(-1), axis=1)  # exact for the two nearest rows
            hit[begin : begin + len(rows)] = two[:, 0] < self.below**2 * two[:, 1]
        return hit


@dataclass(frozen=True)
class Distance(Criterion):
    """A copy is nearer than ``below`` by your own distance: ``function(samples, train)`` returns (n,) or (n, N)."""

    function: Callable[[Rows, Rows], Any]
    below: float

    @property
    def name(self) -> str:
        own = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"copies by {own} below {self.below:g}"

    def is_copy(self, samples: Rows, train: Rows) -> Flags:
        distance = np.asarray(self.function(samples, train), dtype=np.float64)
        if distance.shape not in ((len(samples),), (len(samples), len(train))):
            expected = f"({len(samples)},) or ({len(samples)}, {len(train)})"
            raise UserError(f"function: it returned the shape {distance.shape}; return {expected}")
        if np.isnan(distance).any():
            raise UserError("function: it returned NaN; a missing distance must not count as 'not a copy'")
        return (distance if distance.ndim == 1 else distance.min(1)) < self.below


CRITERIA: dict[str, Criterion] = {"exact": Exact(), "hamming": Hamming(), "ratio": Ratio()}


def tiles(samples: Rows, cost: int) -> Iterator[tuple[int, Rows]]:
    """Chunks of the samples, each with its first index; rows per chunk times ``cost`` is at most ``TILE``."""
    size = max(1, TILE // max(cost, 1))
    return ((begin, samples[begin : begin + size]) for begin in range(0, len(samples), size))


def comparison_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which two arrays are compared: for floats the narrower one, to which the wider was rounded."""
    return min(a, b, key=lambda kind: kind.itemsize) if a.kind == b.kind == "f" else np.promote_types(a, b)


def distinct(rows: Rows) -> Rows:
    """The rows without repetitions."""
    _, first = np.unique(byte_keys(rows), return_index=True)
    return rows[first]


def as_rows(values: Any, name: str) -> Rows:
    """Convert values to rows (n, entries): floats keep their dtype, integers get the smallest dtype that can hold them.

    Values that may be missing (NaN, infinity, masked) are an error; they never count as "not a copy".
    """
    array = as_array(values, name)
    if array.dtype.kind not in "iubf":
        raise UserError(f"{name}: dtype {array.dtype} is not allowed; give integers or floats")
    if array.ndim < 2 or array.size == 0:
        raise UserError(f"{name}: shape {array.shape} is not allowed; give at least one row, as (n, entries)")
    flat = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        if not np.isfinite(flat).all():
            raise UserError(f"{name}: a value is NaN or infinite; leave missing samples out")
        return np.ascontiguousarray(flat)
    least = np.result_type(*(np.min_scalar_type(int(end)) for end in (flat.min(), flat.max())))
    return np.ascontiguousarray(flat, dtype=least)


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Convert a list, array or tensor to a numpy array; bfloat16, which numpy lacks, becomes float32."""
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        values = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
    if np.ma.is_masked(values):
        raise UserError(f"{name}: some values are masked; leave missing samples out")
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise UserError(f"{name}: it is not an array ({error}); give rows of equal length") from None
