"""Metrics of diversity: how many valid and new samples differ, how much they cover, the entropy of their pieces.

Chance levels hold for samples that are uniform over all that the rule can draw outside the training set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.core.lazy import torch
from twoclocks.evaluation.copies import flat_rows, packed
from twoclocks.evaluation.metric import METRICS, Column, Count, Metric, Value, pieces_named
from twoclocks.evaluation.samples import Reference, Samples

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 1 << 1000  # larger numbers of contents do not fit a float, and no number of samples shows a difference
MILLER_MADOW = 0.5 / math.log(2)  # bias of the entropy in bits, times draws, for each content but the first
REPEATS = 64  # evaluations at most over which an estimated chance level is averaged


@METRICS.register("distinct_new")
class DistinctNew(Metric):
    """Different samples among the valid and new ones: relative to their number, and to all that the rule can draw."""

    name: ClassVar[str] = "distinct_new"
    coverage: ClassVar[str] = "coverage_new"
    place: ClassVar[int] = 8

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference)
        self.room = reference.rule.support() - len(reference.copies)  # what the rule can draw outside the training set

    def columns(self) -> list[Column]:
        draws = expected_new(self.reference)
        return [
            Column(
                name=self.name,
                about="different samples among the valid and new ones, as a proportion of these",
                direction="higher is better",
                chance_rule=None if not self.room else expected_distinct(self.room, draws),
            ),
            Column(
                name=self.coverage,
                about="different valid and new samples, as a proportion of all valid ones outside the training set",
                direction="higher is better",
                chance_rule=None if not self.room else expected_coverage(self.room, draws),
            ),
        ]

    def __call__(self, samples: Samples) -> dict[str, Value]:
        distinct = (tally(flat_rows(samples.symbols), samples.new, self.reference.rule.symbols) > 0).sum()
        # The room may be larger than any float; one part of it is not.
        each = 1 / self.room if self.room and len(samples) else math.nan
        return {self.name: Count(distinct, samples.new.sum()), self.coverage: distinct.double() * each}


@METRICS.register("part_entropy")
class PartEntropy(Metric):
    """Entropy of the pieces of valid and new samples: one column per kind of piece.

    A piece that is the whole sample has none, since ``DistinctNew`` says it; nor has one with a single content.
    """

    name: ClassVar[str] = "part_entropy"
    place: ClassVar[int] = 9

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference)
        self.rule = reference.rule
        self.room = self.rule.support() - len(reference.copies)
        self.contents = {
            kind: self.rule.part_counts()[kind]
            for kind, size in reference.piece_sizes.items()
            if size < math.prod(self.rule.shape) and self.rule.part_counts()[kind] > 1
        }

    @staticmethod
    def column(kind: str) -> str:
        """The name of the column of a kind: ``group_entropy``."""
        return f"{kind}_entropy"

    def columns(self) -> list[Column]:
        chance = self.uniform_chance if self.rule.uniform_parts else self.estimated_chance()
        return [
            Column(
                name=self.column(kind),
                about=f"entropy of the {pieces_named(kind)} of valid and new samples, relative to that of uniform ones",
                direction="higher is better",
                chance_rule=chance(kind) if round(expected_new(self.reference)) else None,
            )
            for kind in self.contents
        ]

    def __call__(self, samples: Samples) -> dict[str, Tensor]:
        return {self.column(kind): self.entropy(kind, samples.parts[kind], samples.new) for kind in self.contents}

    def entropy(self, kind: str, pieces: Tensor, new: Tensor) -> Tensor:
        """Entropy of the pieces (n, pieces, entries) of the new samples, relative to that of uniform ones."""
        chosen = new[:, None].expand(pieces.shape[:2]).flatten()
        return entropy(tally(pieces.flatten(0, 1), chosen, self.rule.symbols)) / math.log2(self.contents[kind])

    def uniform_chance(self, kind: str) -> float:
        """Expected entropy where a piece of a true sample is uniform and training rows are left out.

        Contents that stand v times in the training set's pieces stand (pieces·support/contents − v) times in those of
        all other samples. Pieces count as independent of each other.
        """
        contents, pieces = min(self.contents[kind], LARGEST), self.rule.parts(self.reference.train)[kind]
        rows = pieces.flatten(0, 1)
        counts = tally(rows, torch.ones(len(rows), dtype=torch.bool, device=rows.device), self.rule.symbols)
        held, times = (values.tolist() for values in torch.unique(counts[counts > 0], return_counts=True))
        every, width = self.rule.support(), pieces.shape[1]
        groups = [
            (number, max(0, width * every - contents * v) / (contents * width * self.room))
            for v, number in zip([0, *held], [contents - sum(times), *times], strict=True)
            if number
        ]
        return expected_entropy(round(expected_new(self.reference) * width), groups) / math.log2(contents)

    def estimated_chance(self) -> Callable[[str], float | None]:
        """Mean entropy over evaluations of true samples, where pieces are not uniform."""
        reference, samples = self.reference, self.reference.settings.samples
        rows = self.rule.sample(max(CHANCE_SAMPLES, samples), seed=0).to(reference.train.device)
        evaluations = [(self.rule.parts(some), ~reference.copies.found(some)) for some in rows.split(samples)[:REPEATS]]

        def chance(kind: str) -> float | None:
            mean = float(torch.stack([self.entropy(kind, parts[kind], new) for parts, new in evaluations]).nanmean())
            return None if math.isnan(mean) else mean

        return chance


def expected_new(reference: Reference) -> float:
    """How many of the samples of an evaluation are valid and new if the rule draws them."""
    return reference.settings.samples * (1 - reference.rule.copy_chance(len(reference.copies)))


def tally(rows: Tensor, chosen: Tensor, symbols: int) -> Tensor:
    """How often each different row (n, entries) occurs among the chosen ones (n,): int64 (n,), filled up with zeros.

    Rows are sorted word by word, so that equal ones are neighbours; the host never waits for how many differ.

    >>> tally(torch.tensor([[1, 0], [0, 1], [1, 0]]), torch.tensor([True, False, True]), symbols=2)
    tensor([2, 0, 0])
    """
    words = packed(rows, symbols)
    order = torch.arange(len(words), device=words.device)
    for word in reversed(words.unbind(dim=1)):
        order = order[word[order].sort(stable=True).indices]
    ordered = words[order]
    differs = torch.zeros_like(order)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(dim=1)
    return torch.zeros_like(order).index_add_(0, differs.cumsum(dim=0), chosen[order].long())


def entropy(counts: Tensor) -> Tensor:
    """Entropy in bits from counts (n,), with the correction of Miller and Madow; NaN where all counts are 0."""
    values = counts.double()
    total, seen = values.sum(), (counts > 0).sum().double()
    plain = torch.log2(total) - torch.xlogy(values, values).sum() / (total * math.log(2))
    return plain + MILLER_MADOW * (seen - 1) / total


def expected_coverage(room: int, draws: float) -> float:
    """Expected proportion of ``room`` equally likely things that so many draws reach: 1 − (1 − 1/room)^draws."""
    if room == 1:
        return float(draws > 0)
    return -math.expm1(draws * math.log1p(-1 / room))


def expected_distinct(room: int, draws: float) -> float | None:
    """Expected number of different things per draw, among ``room`` equally likely ones; None without draws."""
    share = draws * (1 / room)
    if not share:  # no draws, or more room than a float can hold
        return 1.0 if draws else None
    return expected_coverage(room, draws) / share


def expected_entropy(draws: int, groups: list[tuple[int, float]]) -> float:
    """Expected ``entropy`` of independent draws; a group is (number of contents, probability of each of them)."""
    repeats = seen = 0.0
    for contents, probability in groups:
        count, chance = binomial(draws, probability)
        repeats += contents * float(chance @ (count * np.log2(np.maximum(count, 1))))
        seen += contents * (-math.expm1(draws * math.log1p(-probability)) if probability < 1 else 1.0)
    return math.log2(draws) - repeats / draws + MILLER_MADOW * (seen - 1) / draws


def binomial(draws: int, probability: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts of successes that can occur, and the probability of each; from ratios of neighbours, without scipy.stats.

    Importing scipy.stats takes as long as a short run, and every run would pay for it.
    """
    if probability in (0, 1):
        return np.array([draws * int(probability)]), np.ones(1)
    mean = draws * probability
    reach = 12 * math.sqrt(mean) + 40  # beyond lies less than rounding
    count = np.arange(max(0, math.floor(mean - reach)), min(draws, math.ceil(mean + reach)) + 1)
    ratios = (draws - count[:-1]) / count[1:] * (probability / (1 - probability))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    weights = np.exp(logs - logs.max())
    return count, weights / weights.sum()
