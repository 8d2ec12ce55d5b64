"""What a copy criterion is: it prepares a training set once, and then says of each sample whether it is a copy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError
from twoclocks.core.registry import Registry
from twoclocks.monitor.training_set import Kind, TrainingSet

Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


class Control(NamedTuple):
    """Held-out pieces that a model was prompted with: how many it continued as if they were copied, and all of them."""

    copied: int
    trials: int


@dataclass(frozen=True)
class Matches:
    """For each sample: whether it is a copy, of which training row, and the distance that was compared."""

    copied: Flags  # (n,)
    rows: Indices  # (n,): index into ``TrainingSet.values``; −1 where no row was looked for
    distances: Floats  # (n,): smaller is more similar
    counted: Flags | None = None  # (n,): samples that can be copies; None: all. Others belong to the control
    control: Control | None = None  # where the chance level is measured at each look

    @property
    def trials(self) -> int:
        """Number of samples that can be copies."""
        return len(self.copied) if self.counted is None else int(self.counted.sum())


class Matcher(Protocol):
    """Compares samples with a training set that was prepared once."""

    def __call__(self, samples: Any, device: str = "cpu") -> Matches:
        """Matches of samples (n, *shape), a numpy array, or of texts; ``device`` is where the caller's samples are."""


class Criterion(ABC):
    """Base class: decides which samples are copies of training rows. Subclasses are frozen dataclasses of settings."""

    kinds: ClassVar[frozenset[Kind]] = frozenset({"integers", "floats"})
    about: ClassVar[str]  # one sentence for tables: when is a sample a copy?
    data: ClassVar[str]  # for which data it is meant
    uses_groups: ClassVar[bool] = False  # whether near-duplicates in the training set change the result
    is_cosine: ClassVar[bool] = False  # whether a distance is 1 − cosine, so that 1 − distance is a similarity

    @property
    @abstractmethod
    def name(self) -> str:
        """Text that defines a copy; it is stored with the monitor's state, so it must not change between processes."""

    @abstractmethod
    def matcher(self, train: TrainingSet) -> Matcher:
        """A function that compares samples with this training set; what is computed once is computed here.

        A UserError says where the criterion is not defined for the training set.
        """

    def calibrated(self, train: TrainingSet, held_out: Any | None) -> tuple[Criterion, Any | None]:
        """The criterion with its thresholds set by held-out samples, and the held-out samples that were not used.

        By default nothing is calibrated, and all of them are left for the chance level.
        """
        return self, held_out

    @property
    def measures_chance(self) -> bool:
        """Whether the samples of each look contain a control, so that each look has a chance level of its own."""
        return False

    def shown(self, row: Any) -> Any:
        """A sample or training row as the gallery draws it: an array, or a text."""
        return row

    def check_kind(self, train: TrainingSet) -> None:
        """Raise UserError if the criterion is not defined for this kind of data."""
        if train.kind not in self.kinds:
            kinds = " or ".join(sorted(self.kinds))
            raise UserError(f"copies: {self.name} is defined for {kinds}, the training set has {train.kind}")


CRITERIA: Registry[Criterion] = Registry("criterion", Criterion)
