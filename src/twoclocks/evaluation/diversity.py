"""How varied the valid and new samples are: how many of them differ, how much they cover, the entropy of their pieces.

Chance levels are those of samples that are uniform over what the rule can draw outside the training set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.evaluation.copies import Copies, flat_rows, packed
from twoclocks.evaluation.metric import Metric, pieces_named
from twoclocks.rules.base import Rule

LARGEST = 1 << 1000  # a larger number of contents does not fit a float, and no number of samples can tell it from this
MILLER_MADOW = 0.5 / math.log(2)  # bits that observed shares lack, for each content but one and each 1/draws
REPEATS = 64  # evaluations at most over which an estimated chance level is averaged


class Diversity:
    """The columns on the valid and new samples of one run; ``copies`` are those of its training set ``train``."""

    def __init__(self, rule: Rule, train: Tensor, copies: Copies, samples: int) -> None:
        self.rule, self.train, self.copies, self.samples = rule, train, copies, samples
        self.room = rule.support() - len(copies)  # what the rule can draw outside the training set
        # A piece that is the whole sample says what ``distinct_new`` says; one with a single content has no entropy.
        self.contents = {
            kind: rule.part_counts()[kind]
            for kind, piece in rule.parts(rule.empty(1)).items()
            if piece.shape[2] < math.prod(rule.shape) and rule.part_counts()[kind] > 1
        }

    @property
    def expected(self) -> float:
        """How many of the samples are valid and new if the rule draws them."""
        return self.samples * (1 - self.rule.copy_chance(len(self.copies)))

    def __call__(self, symbols: Tensor, parts: Mapping[str, Tensor], new: Tensor) -> dict[str, Tensor]:
        """Name to value, of the samples (n, *shape), their parts and which of them (n,) are valid and new."""
        distinct = (tally(flat_rows(symbols), new, self.rule.symbols) > 0).sum().double()
        each = 1 / self.room if self.room and len(symbols) else math.nan
        return {
            "distinct_new": distinct / new.sum(),
            "coverage_new": distinct * each,
            **{f"{kind}_entropy": self.entropy(kind, parts[kind], new) for kind in self.contents},
        }

    def entropy(self, kind: str, pieces: Tensor, new: Tensor) -> Tensor:
        """Entropy of the pieces (n, pieces, entries) of the new samples, as a fraction of that of uniform ones."""
        chosen = new[:, None].expand(pieces.shape[:2]).flatten()
        return entropy(tally(pieces.flatten(0, 1), chosen, self.rule.symbols)) / math.log2(self.contents[kind])

    def metrics(self) -> list[Metric]:
        distinct = Metric(
            name="distinct_new",
            about="different ones among the valid and new samples, as a fraction of these",
            direction="higher is better",
            chance_rule=None if not self.room else expected_distinct(self.room, self.expected),
        )
        coverage = Metric(
            name="coverage_new",
            about="different valid and new samples, as a fraction of what the rule can draw besides the training set",
            direction="higher is better",
            chance_rule=None if not self.room else expected_coverage(self.room, self.expected),
        )
        chance = self.uniform_chance if self.rule.uniform_parts else self.estimated_chance()
        entropies = [
            Metric(
                name=f"{kind}_entropy",
                about=f"entropy of the {pieces_named(kind)} of valid and new samples, as a fraction of uniform ones'",
                direction="higher is better",
                chance_rule=chance(kind) if round(self.expected) else None,
            )
            for kind in self.contents
        ]
        return [distinct, coverage, *entropies]

    def uniform_chance(self, kind: str) -> float:
        """Expectation where a piece of a true sample is uniform: the training set takes away what it holds.

        Contents that stand v times in the training set's pieces stand (pieces·support/contents − v) times in those of
        all other samples. Pieces count as independent of each other.
        """
        contents, pieces = min(self.contents[kind], LARGEST), self.rule.parts(self.train)[kind]
        rows = pieces.flatten(0, 1)
        counts = tally(rows, torch.ones(len(rows), dtype=torch.bool, device=rows.device), self.rule.symbols)
        held, times = (values.tolist() for values in torch.unique(counts[counts > 0], return_counts=True))
        every, width = self.rule.support(), pieces.shape[1]
        groups = [
            (number, max(0, width * every - contents * v) / (contents * width * self.room))
            for v, number in zip([0, *held], [contents - sum(times), *times], strict=True)
            if number
        ]
        return expected_entropy(round(self.expected * width), groups) / math.log2(contents)

    def estimated_chance(self) -> Callable[[str], float | None]:
        """Mean over evaluations of true samples, where pieces are not uniform."""
        rows = self.rule.sample(max(CHANCE_SAMPLES, self.samples), seed=0).to(self.train.device)
        evaluations = [(self.rule.parts(some), ~self.copies.found(some)) for some in rows.split(self.samples)[:REPEATS]]

        def chance(kind: str) -> float | None:
            mean = float(torch.stack([self.entropy(kind, parts[kind], new) for parts, new in evaluations]).nanmean())
            return None if math.isnan(mean) else mean

        return chance


def tally(rows: Tensor, chosen: Tensor, symbols: int) -> Tensor:
    """How often each different row (n, entries) is there among the chosen (n,): int64 (n,), zeros behind and between.

    Rows are sorted word by word, so that equal ones are neighbours, and nothing waits for how many differ.

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
    """Entropy in bits from counts (n,): that of the observed shares, corrected as by Miller and Madow; NaN of none."""
    values = counts.double()
    total, seen = values.sum(), (counts > 0).sum().double()
    plain = torch.log2(total) - torch.xlogy(values, values).sum() / (total * math.log(2))
    return plain + MILLER_MADOW * (seen - 1) / total


def expected_coverage(room: int, draws: float) -> float:
    """Expected fraction of ``room`` equally likely things that so many draws reach: 1 − (1 − 1/room)^draws."""
    if room == 1:
        return float(draws > 0)
    return -math.expm1(draws * math.log1p(-1 / room))


def expected_distinct(room: int, draws: float) -> float | None:
    """Expected number of different ones among draws of ``room`` equally likely things, for each draw; None of none."""
    share = draws * (1 / room)
    if not share:  # no draws, or more room than a float can hold
        return 1.0 if draws else None
    return expected_coverage(room, draws) / share


def expected_entropy(draws: int, groups: list[tuple[int, float]]) -> float:
    """Expectation of ``entropy`` over independent draws; a group is (contents, the probability of each of them)."""
    repeats = seen = 0.0
    for contents, probability in groups:
        mean = draws * probability
        reach = 12 * math.sqrt(mean) + 40  # beyond lies less than rounding
        count = np.arange(max(1, math.floor(mean - reach)), min(draws, math.ceil(mean + reach)) + 1)
        repeats += contents * float(binom.pmf(count, draws, probability) @ (count * np.log2(count)))
        seen += contents * float(binom.sf(0, draws, probability))
    return math.log2(draws) - repeats / draws + MILLER_MADOW * (seen - 1) / draws
