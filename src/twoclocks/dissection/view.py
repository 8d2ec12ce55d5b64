"""What a view is: a measurement of every checkpoint, and a summary of all of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

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
from twoclocks.runs.settings import RunSettings

# Noise scales at which neighbouring corners of the cube become distinguishable (P1 §4.2), for symbols at distance 2.
# All σ in settings of views are for this distance; for other encodings they are multiplied by ``Encoding.unit``.
CRITICAL = (0.2, 2.0)
ROUNDING = 1e-6  # relative difference up to which two σ count as equal
Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


class ViewError(UserError):
    """A view finds, while it prepares, that this run has nothing for it to measure."""


@dataclass(frozen=True)
class Info(ABC):
    """The result of a view, as plain arrays and numbers; axis 0 of what changes with training is the step."""

    steps: npt.NDArray[np.int64]
    clocks: Clocks | None  # τ_rule and τ_mem of the run, where they are known

    @abstractmethod
    def sentences(self) -> list[str]:
        """The findings, in plain words with their numbers."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The findings for programs: what ``--json`` prints."""


@dataclass(frozen=True)
class ScaleInfo(Info):
    """The result of a view that denoises at several noise scales."""

    sigmas: Floats
    unit: float  # half the distance of neighbouring symbols, in which σ is given

    @property
    def level(self) -> int:
        """The σ nearest to the middle of the critical band."""
        return critical(self.sigmas, self.unit)


class Passes(NamedTuple):
    """Forward passes of the network: ``calls`` one after another, each of so many ``rows``."""

    calls: int
    rows: int


class Probe(ABC):
    """A view with all that it needs besides the model, prepared once for all checkpoints."""

    def constants(self) -> Arrays:
        """Arrays that do not change with training, such as results of oracles."""
        return {}

    @abstractmethod
    def measure(self, step: int) -> Arrays:
        """Measure one checkpoint."""


@dataclass(frozen=True, kw_only=True)
class View(Settings):
    """One analysis of a run; its fields are the settings of the measurement.

    To add one: a subclass with the members below, registered in ``VIEWS``, in one file of ``dissection/views`` or of
    another package; a drawing of its Info is registered under the same name in ``report.drawings.DRAWINGS``.
    Measurements are cached by content: the same model and settings give the same result.
    """

    reads: ClassVar[Reads]
    interprets: ClassVar[tuple[str, ...]] = ()  # settings that change the summary, not the measurement
    fewest: ClassVar[int] = 1  # checkpoints that the view needs

    def refusal(self, settings: RunSettings) -> str | None:
        """Why this view does not apply to runs with these settings, or None."""
        return None

    def passes(self, settings: RunSettings) -> Passes:
        """What the network computes for one checkpoint, for estimates of time; nothing where samples are read."""
        return Passes(0, 0)

    @abstractmethod
    def prepare(self, subject: Subject) -> Probe:
        """Prepare all that does not depend on the checkpoint."""

    @abstractmethod
    def info(self, subject: Subject, steps: Sequence[int], constants: Arrays, measurements: Mapping[str, Any]) -> Info:
        """Summarise the measurements of all steps, which are stacked along axis 0."""


VIEWS: Registry[View] = Registry("view", View)


def denoising_refusal(settings: RunSettings, smallest: float, largest: float) -> str | None:
    """Why a view cannot evaluate the denoiser from σ ``smallest`` to ``largest`` (for symbols 2 apart), or None."""
    objective, encoding = settings.objective, settings.encoding
    name, span = OBJECTIVES.name_of(objective), objective.sigma_range()
    points = encoding is not None and (settings.rule.is_image or encoding.codes(settings.rule.symbols) is not None)
    if span is None or encoding is None or not points:
        return f"objective {name} has no noise levels; this view needs a denoiser (objective edm)"
    if span[0] == span[1]:
        return f"objective {name} has a denoiser at σ = {span[0]:.3g} only; this view needs several noise scales"
    low, high = (sigma * encoding.unit(settings.rule) for sigma in (smallest, largest))
    if low < span[0] * (1 - ROUNDING) or high > span[1] * (1 + ROUNDING):
        wanted = f"{low:.3g} to {high:.3g}"
        return f"objective {name} has a denoiser from σ = {span[0]:.3g} to {span[1]:.3g}; this view needs {wanted}"
    return None


def plain(values: Floats) -> list[float | None]:
    """Values as a list for JSON; NaN and infinity become None."""
    return [float(value) if np.isfinite(value) else None for value in values]


def critical(sigmas: Floats, unit: float) -> int:
    """Index of the noise scale nearest to the middle of the critical band, where the oracles differ most."""
    return int(np.abs(np.log(sigmas / unit / math.sqrt(CRITICAL[0] * CRITICAL[1]))).argmin())


NO_ORACLE = "The exact oracle of this rule is not known (no closed form, and too many valid arrays to list)."


def without_rule(oracles: Sequence[str]) -> bool:
    """Whether the data have no rule, as real images: only the ideal denoiser of the training set is known."""
    return tuple(oracles) == ("memory",)


def confidence_words(confidence: float) -> str:
    """Such as `` with 95% confidence``; empty where the clocks use no bounds (confidence 0).

    >>> confidence_words(0.95), confidence_words(0)
    (' with 95% confidence', '')
    """
    return f" with {100 * confidence:.6g}% confidence" if confidence else ""


def when(onset: Onset) -> str:
    """An onset as part of a sentence, such as ``between steps 900 and 1,200``."""
    if onset.status == "right-censored" and onset.lower == 0:
        return "undecided at every evaluation"
    if onset.status == "right-censored":
        return f"not by step {onset.lower:,.0f}"
    if onset.status == "left-censored":
        return f"by step {onset.upper:,.0f}"
    return f"between steps {onset.lower:,.0f} and {onset.upper:,.0f}"


def order_words(here: Onset, there: Onset | None, what: str) -> str:
    """Whether an onset comes before or after another one, named ``what``, as far as their intervals show."""
    if there is None or not here.seen:
        return ""
    if here.upper <= there.lower:
        times = f", {there.estimate / here.estimate:.1f} times" if here.estimate and there.estimate else ""
        return f"{times or ','} before {what} ({there})"
    if there.seen and there.upper <= here.lower:
        return f", after {what} ({there})"
    return f"; whether that is before {what} ({there}) is not certain"
