"""What a view is: a measurement of every moment, and what the measurements say together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset
from twoclocks.clocks.window import Clocks
from twoclocks.core.arrays import Floats
from twoclocks.core.config import Settings
from twoclocks.core.errors import UserError
from twoclocks.core.registry import Registry
from twoclocks.dissection.subject import Reads, Subject
from twoclocks.objectives.base import OBJECTIVES
from twoclocks.objectives.edm import EDM
from twoclocks.runs.settings import RunSettings

# Noise scales at which neighbouring corners of the cube are told apart (P1 §4.2), for symbols that lie 2 apart. All σ
# in settings of views are such numbers; for other encodings they are multiplied by ``Encoding.unit``.
CRITICAL = (0.2, 2.0)
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


class ViewError(UserError):
    """A view finds, when it gets ready, that there is nothing here for it to see."""


@dataclass(frozen=True)
class Info(ABC):
    """All that a figure and its caption show, as plain arrays and numbers. Axis 0 of what changes is the step."""

    steps: npt.NDArray[np.int64]
    clocks: Clocks | None  # of the samples, where they are known

    @abstractmethod
    def sentences(self) -> list[str]:
        """What is seen, in plain words with the numbers filled in."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The same for programs: what ``--json`` prints."""


class Probe(ABC):
    """A view with all that it needs besides the model, prepared once for all moments."""

    def constants(self) -> Arrays:
        """What does not change with training: floors, the fields of oracles."""
        return {}

    @abstractmethod
    def measure(self, step: int) -> Arrays:
        """One moment's measurement."""


@dataclass(frozen=True, kw_only=True)
class View(Settings):
    """One way to look at a training; its settings are the measurement's.

    To add one: a subclass with the members below, registered under a name, in one file of this folder; a drawing of its
    Info goes to ``report/drawings``. Measurements are cached by content: the same model and settings, the same result.
    """

    reads: ClassVar[Reads]
    interprets: ClassVar[tuple[str, ...]] = ()  # settings that change what is said, not what is measured
    fewest: ClassVar[int] = 1  # moments without which there is nothing to see

    def refusal(self, settings: RunSettings) -> str | None:
        """Why this view makes no sense for such runs, or None."""
        return None

    @abstractmethod
    def prepare(self, subject: Subject) -> Probe:
        """Get ready to look."""

    @abstractmethod
    def info(self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]) -> Info:
        """What the looks say together; ``looks`` are those of all moments, stacked along axis 0."""


VIEWS: Registry[View] = Registry("view", View)


def needs_noise_levels(settings: RunSettings) -> str | None:
    """The refusal of views that denoise."""
    if isinstance(settings.objective, EDM):
        return None
    return f"objective {OBJECTIVES.name_of(settings.objective)} has no noise levels; it is made for diffusion (edm)"


def plain(values: Floats) -> list[float | None]:
    """For JSON, which has neither NaN nor infinity."""
    return [float(value) if np.isfinite(value) else None for value in values]


def critical(sigmas: Floats, unit: float) -> int:
    """Which of some noise scales is nearest to the middle of the critical band, where cube, rule and memory part."""
    return int(np.abs(np.log(sigmas / unit / math.sqrt(CRITICAL[0] * CRITICAL[1]))).argmin())


NO_ORACLE = "The exact oracle of this rule is not known (no closed form, and too many valid arrays to list them)."


def when(onset: Onset) -> str:
    """An onset in a sentence."""
    if onset.status == "right-censored" and onset.lower == 0:
        return "not certain at any evaluation"
    if onset.status == "right-censored":
        return f"not by step {onset.lower:,.0f}"
    if onset.status == "left-censored":
        return f"by step {onset.upper:,.0f}"
    return f"between steps {onset.lower:,.0f} and {onset.upper:,.0f}"


def order_words(here: Onset, there: Onset | None, what: str) -> str:
    """How an onset stands to another, ``what``, as far as their intervals tell."""
    if there is None or not here.seen:
        return ""
    if here.upper <= there.lower:
        times = f", {there.estimate / here.estimate:.1f} times" if here.estimate and there.estimate else ""
        return f"{times or ','} before {what} ({there})"
    if there.seen and there.upper <= here.lower:
        return f", after {what} ({there})"
    return f"; whether that is before {what} ({there}) is not certain"
