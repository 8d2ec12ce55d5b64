"""From decoded samples to the numbers of one evaluation: all registered metrics, fetched to the host at once.

Evaluation sees samples, never models.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from twoclocks.core.counts import TRIALS, hits_key, trials_key, values_of
from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch
from twoclocks.data.encodings import Decoded
from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.image_neighbours import RatioCopies
from twoclocks.evaluation.metric import Column, Metric, Value, columns_by_metric, metrics_of
from twoclocks.evaluation.neighbours import Neighbours
from twoclocks.evaluation.samples import Outcome, Reference, Samples
from twoclocks.evaluation.settings import EvaluationSettings
from twoclocks.evaluation.verbatim import RunCopies
from twoclocks.rules.base import Rule, in_range

if TYPE_CHECKING:
    from torch import Tensor


class Evaluator:
    """All metrics of one run's samples against its rule and training set, on the device where that set lies.

    The training set is prepared once; an evaluation brings two small tensors to the host, its checks and its row.
    ``holdout`` are valid rows that were not trained on, ``omitted`` contents of pieces that no training row has,
    ``held_out`` all images or texts that were not trained on; ``mirrored``: copies may be mirror images.
    """

    def __init__(
        self,
        rule: Rule,
        train: Tensor,
        settings: EvaluationSettings,
        holdout: Tensor | None = None,
        omitted: Tensor | None = None,
        held_out: Tensor | None = None,
        mirrored: bool = False,
    ) -> None:
        self.reference = Reference(rule, train, settings, holdout, omitted, held_out, mirrored)
        self.metrics = metrics_of(self.reference)
        self.described = columns_by_metric(self.metrics)

    @property
    def train(self) -> Tensor:
        return self.reference.train

    @property
    def copies(self) -> Copies | RatioCopies | RunCopies:
        return self.reference.copies

    @property
    def neighbours(self) -> Neighbours:
        return self.reference.neighbours

    @property
    def holdout(self) -> Copies | RatioCopies | RunCopies | None:
        return self.reference.holdout

    def judge(self, decoded: Decoded) -> Outcome:
        """What became of each sample."""
        return self.checked(decoded).outcome

    def checked(self, decoded: Decoded) -> Samples:
        """The samples on the training set's device, or an error: what is not a sample must not count as a miss."""
        rule = self.reference.rule
        symbols, distance = (values.to(self.train.device) for values in decoded)
        symbols = rule.as_samples(symbols)
        finite, known = torch.stack([torch.isfinite(distance).all(), in_range(symbols, rule.symbols).all()]).tolist()
        if not finite:
            raise FloatingPointError("the sampler produced values that are not finite")
        if not known:
            raise ValueError(f"decoded samples hold symbols outside 0..{rule.symbols - 1}")
        return Samples(self.reference, symbols, distance)

    def __call__(self, decoded: Decoded) -> dict[str, float]:
        """Every column with its value, proportions as floats, and the number of samples as ``trials``."""
        return values_of(self.row(decoded))

    def row(self, decoded: Decoded, only: Collection[str] | None = None) -> dict[str, float]:
        """The numbers as a run stores them: of proportions the integer hits and trials (``twoclocks.core.counts``).

        ``only``: names of the metrics to compute; None: all.
        """
        samples = self.checked(decoded)
        row: dict[str, Tensor | int] = {TRIALS: len(samples)}
        for metric, columns in self.chosen(only):
            values = metric(samples)
            if unknown := sorted(values.keys() - {column.name for column in columns}):
                fix = "describe it in columns(), or return only columns that are described there"
                raise UserError(f"metric {metric.name!r}: returns a value for {unknown[0]!r}; {fix}")
            for name, value in values.items():
                row |= stored_form(name, value)
        return fetched(row)

    def columns(self, only: Collection[str] | None = None) -> list[Column]:
        """Meaning and chance levels of every column that ``row`` returns, besides ``trials``."""
        return [column for _, columns in self.chosen(only) for column in columns]

    def chosen(self, only: Collection[str] | None) -> list[tuple[Metric, list[Column]]]:
        """The metrics of these names with their columns; None: all."""
        return [(metric, columns) for metric, columns in self.described if only is None or metric.name in only]


def stored_form(name: str, value: Value) -> dict[str, Tensor | int]:
    """A value under the keys that a row has for it."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    trials = {} if value.trials is None else {trials_key(name): value.trials}
    return {hits_key(name): value.hits, **trials}


def fetched(row: Mapping[str, Tensor | int]) -> dict[str, float]:
    """The row with all its tensors as numbers, brought to the host at once: each fetched alone would wait."""
    tensors = {key: value for key, value in row.items() if isinstance(value, torch.Tensor)}
    # float64 holds every count up to 2^53 exactly.
    numbers = dict(zip(tensors, torch.stack([value.double() for value in tensors.values()]).tolist(), strict=True))
    found: dict[str, float] = {}
    for key, value in row.items():
        if isinstance(value, int):
            found[key] = value
        else:
            found[key] = numbers[key] if value.is_floating_point() else int(numbers[key])
    return found
