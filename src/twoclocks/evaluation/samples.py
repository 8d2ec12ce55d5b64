"""Samples and what they are compared with: what several metrics need is computed once and shared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from twoclocks.core.lazy import torch
from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.image_neighbours import ImageNeighbours, Nearest, RatioCopies, fraction
from twoclocks.evaluation.neighbours import Neighbours
from twoclocks.evaluation.settings import EvaluationSettings
from twoclocks.evaluation.verbatim import RunCopies
from twoclocks.rules.base import Rule, all_parts_valid

if TYPE_CHECKING:
    from torch import Tensor


class Reference:
    """What samples are compared with: a rule, its training set, and valid rows that were not trained on.

    The training set is prepared once, on the device where it lies. ``holdout`` is None where there are too few valid
    rows; hits among the held-out rows are copies that cannot come from memorization. ``omitted`` are the contents
    (n, entries) of a piece that ``data.omit`` keeps out of the training set, for rules with one kind of pieces.
    ``held_out`` are images or texts that were not trained on, as many as there are (up to a limit). ``mirrored``:
    training showed mirror images too, so these can be copied as well.
    """

    def __init__(
        self,
        rule: Rule,
        train: Tensor,
        settings: EvaluationSettings | None = None,
        holdout: Tensor | None = None,
        omitted: Tensor | None = None,
        held_out: Tensor | None = None,
        mirrored: bool = False,
    ) -> None:
        self.rule, self.train, self.mirrored = rule, train, mirrored
        self.settings = settings if settings is not None else EvaluationSettings()
        self.held_out = None if held_out is None else held_out.to(train.device)
        self.holdout = None if holdout is None else self.copies_of(holdout.to(train.device))
        self.omitted = None if omitted is None else Copies(omitted.to(train.device), rule.symbols)

    def copies_of(self, rows: Tensor) -> Copies | RatioCopies | RunCopies:
        """Rows whose copies can be found: equal samples, images by the ratio of distances, texts by a common run."""
        if self.rule.is_text:
            return RunCopies(rows, self.settings.copy_run)
        if self.rule.is_image:
            return RatioCopies(rows, self.settings.copy_ratio, self.mirrored)
        return Copies(rows, self.rule.symbols)

    @cached_property
    def copies(self) -> Copies | RatioCopies | RunCopies:
        """The training rows, to find their copies."""
        return self.copies_of(self.train)

    @cached_property
    def copy_chance(self) -> float:
        """The share of new samples that count as copies: exact for rules; for images and texts, of held-out ones."""
        if isinstance(self.copies, RatioCopies):
            nearest = self.held_out_nearest
            return 0.0 if nearest is None else float(self.copies.among(nearest).double().mean())
        if isinstance(self.copies, RunCopies):
            runs = self.held_out_runs
            return 0.0 if runs is None else float(self.copies.among(runs).double().mean())
        return self.rule.copy_chance(len(self.train))

    @cached_property
    def held_out_runs(self) -> Tensor | None:
        """Texts: the longest run that each held-out one shares with a training text."""
        return None if self.held_out is None else self.run_copies.lengths(self.held_out)

    @cached_property
    def run_copies(self) -> RunCopies:
        """The training texts, for runs; one index of them serves this and the search for copies."""
        copies = self.copies
        return copies if isinstance(copies, RunCopies) else RunCopies(self.train, self.settings.copy_run)

    @cached_property
    def held_out_nearest(self) -> Nearest | None:
        """Images: the two nearest training images of each held-out one."""
        return None if self.held_out is None else self.image_neighbours.two_nearest(self.held_out)

    @cached_property
    def image_neighbours(self) -> ImageNeighbours:
        """The training images, for distances; one copy of them serves this and the search for copies."""
        copies = self.copies
        return copies.neighbours if isinstance(copies, RatioCopies) else ImageNeighbours(self.train, self.mirrored)

    def copy_words(self, of: Literal["training", "held-out"]) -> str:
        """What is counted as a copy of a training or a held-out sample."""
        if self.rule.is_image:
            share = fraction(self.settings.copy_ratio)
            mirrored = " or its mirror image" if self.mirrored else ""
            return f"samples that are nearer to one {of} image{mirrored} than {share} of the distance to the next"
        if self.rule.is_text:
            return f"samples of which {self.run_copies.run} tokens in a row occur in a {of} text"
        equal = "a training sample" if of == "training" else "one of as many valid samples that were not trained on"
        return f"samples that equal {equal}"

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
    copied: Tensor  # bool (n,): equals a training row, or is near to it (images), or has a run of it (texts)
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
        copies = self.reference.copies
        if isinstance(copies, RatioCopies):
            copied = copies.among(self.nearest)
        else:
            copied = copies.among(self.runs) if isinstance(copies, RunCopies) else copies.found(self.symbols)
        valid = all_parts_valid(self.parts_valid) if self.reference.rule.has_rule else torch.ones_like(copied)
        return Outcome(valid, copied, self.distance)

    @cached_property
    def nearest(self) -> Nearest:
        """Images: the two nearest training images."""
        return self.reference.image_neighbours.two_nearest(self.symbols)

    @cached_property
    def runs(self) -> Tensor:
        """Texts: the longest run that each sample shares with a training text, in tokens."""
        return self.reference.run_copies.lengths(self.symbols)

    @cached_property
    def new(self) -> Tensor:
        """Which samples are valid and not in the training set: bool (n,)."""
        return self.outcome.new
