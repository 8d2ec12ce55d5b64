"""Samples and what they are compared with: what several metrics need is computed once and shared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from twoclocks.core.lazy import torch
from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.neighbours import Neighbours
from twoclocks.evaluation.settings import EvaluationSettings
from twoclocks.rules.base import Rule, all_parts_valid

if TYPE_CHECKING:
    from torch import Tensor


class Reference:
    """What samples are compared with: a rule, its training set, and valid rows that were not trained on.

    The training set is prepared once, on the device where it lies. ``holdout`` is None where there are too few valid
    rows; hits among the held-out rows are copies that cannot come from memorization. ``held_out`` are these rows
    themselves. ``omitted`` are the contents
    (n, entries) of a piece that ``data.omit`` keeps out of the training set, for rules with one kind of pieces.
    """

    def __init__(
        self,
        rule: Rule,
        train: Tensor,
        settings: EvaluationSettings | None = None,
        holdout: Tensor | None = None,
        omitted: Tensor | None = None,
    ) -> None:
        self.rule, self.train = rule, train
        self.settings = settings if settings is not None else EvaluationSettings()
        self.held_out = None if holdout is None else holdout.to(train.device)
        self.holdout = None if self.held_out is None else Copies(self.held_out, rule.symbols)
        self.omitted = None if omitted is None else Copies(omitted.to(train.device), rule.symbols)

    @cached_property
    def copies(self) -> Copies:
        """The training rows, for exact lookup."""
        return Copies(self.train, self.rule.symbols)

    @cached_property
    def neighbours(self) -> Neighbours:
        """The training rows, for distances."""
        return Neighbours(self.train, self.rule.symbols)

    @cached_property
    def part_copies(self) -> dict[str, Copies]:
        """The pieces of all training rows by kind, for exact lookup wherever they stand."""
        pieces = self.rule.parts(self.train)
        return {kind: Copies(piece.flatten(0, 1), self.rule.symbols) for kind, piece in pieces.items()}

    @cached_property
    def piece_sizes(self) -> dict[str, int]:
        """Entries of one piece of each kind."""
        return {kind: piece.shape[2] for kind, piece in self.rule.parts(self.rule.empty(1)).items()}


@dataclass(frozen=True)
class Outcome:
    """What became of each sample."""

    valid: Tensor  # bool (n,): obeys the rule, after rounding to symbols; true where there is no rule
    copied: Tensor  # bool (n,): equals a training row
    distance: Tensor  # (n,): to the code book

    @property
    def new(self) -> Tensor:
        return self.valid & ~self.copied


class Samples:
    """The decoded samples of one evaluation, with what several metrics share, each computed at its first use.

    Everything stays on the device of the training set. A metric must not fetch single numbers to the host: the host
    would wait for the device each time.
    """

    def __init__(self, reference: Reference, symbols: Tensor, distance: Tensor) -> None:
        self.reference = reference
        self.symbols = symbols  # int (n, *shape)
        self.distance = distance  # (n,): the largest distance of an entry to the code book

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def parts(self) -> dict[str, Tensor]:
        """The pieces that the rule constrains, by kind: (n, pieces, entries)."""
        return self.reference.rule.parts(self.symbols)

    @cached_property
    def parts_valid(self) -> dict[str, Tensor]:
        """Which pieces obey the rule, by kind: bool (n, pieces)."""
        return self.reference.rule.parts_valid(self.symbols)

    @cached_property
    def outcome(self) -> Outcome:
        """Which samples are valid and which are copies."""
        copied = self.reference.copies.found(self.symbols)
        valid = all_parts_valid(self.parts_valid) if self.reference.rule.has_rule else torch.ones_like(copied)
        return Outcome(valid, copied, self.distance)

    @cached_property
    def new(self) -> Tensor:
        """Which samples are valid and not in the training set: bool (n,)."""
        return self.outcome.new
