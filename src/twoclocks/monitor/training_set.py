"""The training set as a monitor holds it: checked, without repetitions, with near-duplicates and symmetries known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from twoclocks.core.errors import UserError
from twoclocks.core.rows import byte_keys
from twoclocks.monitor.inputs import Text, Values, as_texts, as_values, is_bfloat16, is_texts
from twoclocks.monitor.near_duplicates import near_duplicates
from twoclocks.monitor.symmetries import Symmetry, symmetries_of

Kind = Literal["integers", "floats", "texts"]
ENTRIES = 100_000  # from which the range of the values is computed
FAMILY = 64  # neighbours among which the near-duplicates of a row are searched


class TrainingSet:
    """Training rows of one kind: arrays (N, *shape) of integers or floats, or texts of any length.

    >>> train = TrainingSet([[0, 1], [1, 1], [0, 1]])
    >>> train.kind, len(train), train.original.tolist()
    ('integers', 2, [0, 1])
    """

    def __init__(self, train: Any, symmetries: Sequence[str | Symmetry] = ()) -> None:
        self.texts: list[Text] = []
        self.values: Values = np.zeros((0, 0))
        if is_texts(train):
            self.kind: Kind = "texts"
            self.texts = as_texts(train, "train")
            self.given = len(self.texts)
            self.original = np.array(list({text: i for i, text in reversed(list(enumerate(self.texts)))}.values()))
            self.original = np.sort(self.original).astype(np.int64)
            self.texts = [self.texts[i] for i in self.original]
            self.shape: tuple[int, ...] = ()
        else:
            values = as_values(train, "train")
            self.given = len(values)
            self.kind = kind_of(values)
            _, first = np.unique(byte_keys(flat(values)), return_index=True)
            self.original = np.sort(first).astype(np.int64)  # index of each distinct row among the rows that were given
            self.values = values[self.original]
            self.shape = values.shape[1:]
        self.bfloat16 = is_bfloat16(train)
        self.symmetries = symmetries_of(symmetries, self.values, self.kind)

    def __len__(self) -> int:
        """Number of distinct rows."""
        return len(self.original)

    @cached_property
    def groups(self) -> npt.NDArray[np.int64]:
        """Group of each row (N,); rows of one group are near-duplicates of each other."""
        return near_duplicates(self.values, most=FAMILY, variants=self.symmetries)

    @cached_property
    def value_range(self) -> tuple[float, float]:
        """Between which values nearly all entries lie."""
        return value_range(self.values)

    def forms(self) -> Iterator[Values]:
        """The rows as they are, and then in the form of each declared symmetry: arrays (N, *shape)."""
        yield self.values
        for symmetry in self.symmetries:
            yield np.ascontiguousarray(symmetry(self.values))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the distinct rows in order."""
        if self.kind == "texts":
            return hashlib.sha256(repr(self.texts).encode()).hexdigest()
        in_order = self.values[np.argsort(byte_keys(flat(self.values)))]
        return hashlib.sha256(np.ascontiguousarray(in_order).tobytes()).hexdigest()

    def checked(self, samples: Any, name: str) -> Any:
        """Samples as an array (n, *shape) or as texts; UserError if their shape or kind differs from the rows."""
        if self.kind == "texts":
            return as_texts(samples, name)
        values = as_values(samples, name)
        self.check_shape(values.shape[1:], name)
        if kind_of(values) != self.kind:
            fix = "give both as integers or both as floats"
            raise UserError(f"{name}: {kind_of(values)}, but the training set has {self.kind}; {fix}")
        return values.reshape(len(values), *self.shape)

    def check_shape(self, shape: tuple[int, ...], name: str) -> None:
        """Raise UserError unless samples have the shape of the rows; flat rows of as many entries are also accepted."""
        entries, ours = int(np.prod(shape)), int(np.prod(self.shape))
        if entries != ours:
            raise UserError(f"{name}: rows of {entries} entries, the training set has {ours}")
        if shape != self.shape and len(shape) > 1 and len(self.shape) > 1:
            fix = "give both in the same order of axes"
            raise UserError(f"{name}: rows of shape {shape}, the training set has {self.shape}; {fix}")


def kind_of(values: Values) -> Kind:
    return "floats" if values.dtype.kind == "f" else "integers"


def flat(values: Values) -> Values:
    """Values (n, *shape) as rows (n, entries)."""
    return values.reshape(len(values), -1)


def value_range(values: Values) -> tuple[float, float]:
    """Between which values 98% of the entries lie, from about ``ENTRIES`` of them: whole rows, evenly spread."""
    rows = max(32, ENTRIES // flat(values).shape[1])
    low, high = np.quantile(values[:: 1 + len(values) // rows], (0.01, 0.99))
    return float(low), float(high)


def common_dtype(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which two arrays are compared: for floats the narrower one, to which the wider was rounded."""
    return min(a, b, key=lambda kind: kind.itemsize) if a.kind == b.kind == "f" else np.promote_types(a, b)
