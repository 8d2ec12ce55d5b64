"""Metrics of pieces (groups, rows, columns, layers): how many are valid, known, or omitted on purpose."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.evaluation.metric import METRICS, Column, Count, Metric, pieces_named, proportion
from twoclocks.evaluation.samples import Reference, Samples

if TYPE_CHECKING:
    from torch import Tensor


@METRICS.register("part_accuracy")
class PartAccuracy(Metric):
    """Pieces that obey the rule: one column per kind of piece."""

    name: ClassVar[str] = "part_accuracy"
    place: ClassVar[int] = 6

    @staticmethod
    def column(kind: str) -> str:
        """The name of the column of a kind: ``group_accuracy``."""
        return f"{kind}_accuracy"

    def columns(self) -> list[Column]:
        return [
            Column(
                name=self.column(kind),
                about=f"{pieces_named(kind)} that obey the rule",
                direction="higher is better",
                chance_rule=1.0,
                chance_cube=chance,
            )
            for kind, chance in self.reference.rule.part_chance().items()
            if self.reference.rule.has_rule
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        if not self.reference.rule.has_rule:
            return {}
        return {self.column(kind): proportion(valid) for kind, valid in samples.parts_valid.items()}


@METRICS.register("part_memorization")
class PartMemorization(Metric):
    """Pieces that occur in the training set: one column per kind of piece."""

    name: ClassVar[str] = "part_memorization"
    place: ClassVar[int] = 7

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference)
        self.known = reference.part_copies

    @staticmethod
    def column(kind: str) -> str:
        """The name of the column of a kind: ``group_memorization``."""
        return f"{kind}_memorization"

    def columns(self) -> list[Column]:
        rule, sizes = self.reference.rule, self.reference.piece_sizes
        return [
            Column(
                name=self.column(kind),
                about=f"{pieces_named(kind)} that some training sample has, anywhere in it",
                direction="higher is copying",
                chance_rule=self.chance(kind),
                chance_cube=len(known) / rule.symbols ** sizes[kind],
            )
            for kind, known in self.known.items()
        ]

    def chance(self, kind: str) -> float:
        """How often a piece of a true sample occurs in the training set."""
        rule = self.reference.rule
        if self.reference.piece_sizes[kind] == math.prod(rule.shape):  # the piece is the whole sample
            return rule.copy_chance(len(self.reference.train))
        if rule.uniform_parts:  # the distinct contents seen, out of all valid ones
            return len(self.known[kind]) / rule.part_counts()[kind]
        pieces = self.true_pieces[kind].to(self.reference.train.device)
        return float(self.found(kind, pieces).double().mean())

    @cached_property
    def true_pieces(self) -> dict[str, Tensor]:
        rule = self.reference.rule
        return rule.parts(rule.sample(CHANCE_SAMPLES, seed=0))

    def found(self, kind: str, pieces: Tensor) -> Tensor:
        """Which pieces (n, pieces, entries) some training sample has, wherever in it: bool (n, pieces)."""
        return self.known[kind].found(pieces.flatten(0, 1)).view(pieces.shape[:2])

    def __call__(self, samples: Samples) -> dict[str, Count]:
        return {self.column(kind): proportion(self.found(kind, samples.parts[kind])) for kind in self.known}


@METRICS.register("part_omitted")
class PartOmitted(Metric):
    """Valid pieces whose content ``data.omit`` keeps out of the training set; there is no column without any.

    A model that only recombines pieces of its training set generates none of them.
    """

    name: ClassVar[str] = "part_omitted"
    place: ClassVar[int] = 7

    @property
    def kind(self) -> str:
        """The only kind of pieces of the rule."""
        return next(iter(self.reference.rule.part_counts()))

    @property
    def column(self) -> str:
        return f"{self.kind}_omitted"

    def columns(self) -> list[Column]:
        omitted, rule = self.reference.omitted, self.reference.rule
        if omitted is None:
            return []
        chance = len(omitted) / rule.part_counts()[self.kind]  # also of uniform symbols: only valid pieces count
        return [
            Column(
                name=self.column,
                about=f"valid {pieces_named(self.kind)} with a content that no training sample was allowed to have",
                direction="higher is better",
                chance_rule=chance,
                chance_cube=chance,
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        omitted = self.reference.omitted
        if omitted is None:
            return {}
        pieces, valid = samples.parts[self.kind], samples.parts_valid[self.kind]
        found = omitted.found(pieces.flatten(0, 1)).view(pieces.shape[:2])
        return {self.column: Count((found & valid).sum(), valid.sum())}
