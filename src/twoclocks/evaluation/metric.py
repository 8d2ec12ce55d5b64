"""What a metric is: name, meaning, direction, chance levels and computation in one registered object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

from twoclocks.core.counts import HITS_SUFFIX, TRIALS, TRIALS_SUFFIX
from twoclocks.core.errors import UserError
from twoclocks.core.registry import Registry
from twoclocks.evaluation.samples import Reference, Samples

if TYPE_CHECKING:
    from torch import Tensor

Direction = Literal["higher is better", "lower is better", "higher is copying", "neither"]

# Keys of stored rows that a run writes itself: its step and losses, SHA-256 of artifacts, the link to earlier rows.
RUN_COLUMNS = frozenset({"step", "loss", TRIALS, "samples", "weights", "link"})
LOSSES = "loss_"  # how the names of the losses begin
AVERAGED = "averaged_"  # how the names of columns begin that are metrics of the averaged weights (training.average)


@dataclass(frozen=True, kw_only=True)
class Column:
    """What a column of the metrics means."""

    name: str
    about: str
    direction: Direction
    chance_rule: float | None = None  # its value for a model that draws as the rule's own generator does
    chance_cube: float | None = None  # and for one that draws uniform symbols


class Count(NamedTuple):
    """A proportion as two counts."""

    hits: Tensor  # one integer, on the device of the samples
    trials: int | Tensor | None = None  # out of how many; None: out of the samples


Value: TypeAlias = "Count | Tensor"  # a proportion, or any other number as one float


class Metric(ABC):
    """A number per evaluation, or a family of numbers, such as one per kind of piece.

    To add a metric: a subclass with the members below, registered under its name, in one file of this folder or of
    your own package (entry point group ``twoclocks.metrics``). ``twoclocks.testing.check_metric`` then says what is
    wrong with it. Its numbers stand in every row of every run from then on.
    """

    name: ClassVar[str]  # under which it is registered; of its column, unless it has several
    place: ClassVar[int] = 100  # in tables: the smallest comes first
    of: ClassVar[Literal["symbols", "texts", "images", "both"]] = "symbols"  # texts are symbols, too

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    @abstractmethod
    def columns(self) -> list[Column]:
        """Meaning, direction and chance levels of each number; none where the metric does not apply."""

    @abstractmethod
    def __call__(self, samples: Samples) -> Mapping[str, Value]:
        """The value of every column, on the device of the samples; only tokens of texts are fetched to the host."""


METRICS: Registry[Metric] = Registry("metric", Metric)


def metrics_of(reference: Reference) -> list[Metric]:
    """Every registered metric of such data, prepared for a rule and its training set, in the order of tables."""
    rule = reference.rule
    kinds = {"both", "images" if rule.is_image else "symbols", *(["texts"] if rule.is_text else [])}
    chosen = sorted(METRICS.items(), key=lambda item: (item[1].place, item[0]))
    return [metric(reference) for _, metric in chosen if metric.of in kinds]


def columns_by_metric(metrics: Iterable[Metric]) -> list[tuple[Metric, list[Column]]]:
    """Each metric with its columns; UserError where a column's name is not free: one value would replace another."""
    taken: dict[str, str] = {}
    found = []
    for metric in metrics:
        columns = metric.columns()
        for column in columns:
            if problem := name_problem(column.name, taken):
                raise UserError(f"metric {metric.name!r}: column {column.name!r} {problem}; choose another name")
            taken[column.name] = metric.name
        found.append((metric, columns))
    return found


def name_problem(name: str, taken: Mapping[str, str]) -> str | None:
    """Why a metric's column cannot have this name, or None; ``taken`` has the metric of each column that exists."""
    if not name:
        return "has no name"
    if name in RUN_COLUMNS or name.startswith((LOSSES, AVERAGED)):
        return "has a name that every run uses for its own values"
    if name.endswith((HITS_SUFFIX, TRIALS_SUFFIX)):
        return "has the ending of stored counts"
    return f"is already a column of the metric {taken[name]!r}" if name in taken else None


def proportion(flags: Tensor) -> Count:
    """How many of the flags (n, …) are set: out of the samples, or out of all flags where a sample has several."""
    return Count(flags.sum(), None if flags.dim() == 1 else flags.numel())


def mean(values: Tensor) -> Tensor:
    """Mean as one float64 on its device; the mean over no sample is NaN, never zero."""
    return values.double().mean()


def mean_over(values: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the integers that are chosen, without selecting them: how many they are stays on the device."""
    return (values * chosen).sum().double() / chosen.sum().double()


def pieces_named(kind: str) -> str:
    """Pieces of a kind in words: ``rows``; ``pieces of layer 1``."""
    return f"pieces of {kind.replace('_', ' ')}" if "_" in kind else f"{kind}s"
