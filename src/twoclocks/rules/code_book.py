"""Code books: groups of bits that are words of a random list, as many as parity allows, with no rule behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.lazy import torch
from twoclocks.core.seeds import numpy_stream
from twoclocks.rules.base import RULES, Array, are_symbols
from twoclocks.rules.parity import Grouped

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 20  # bits per group: a list of 2^19 words takes 84 MB
SUMMED = 14  # bits per group up to which all words are summed for exact oracles


@RULES.register("code_book")
@dataclass(frozen=True, kw_only=True)
class CodeBook(Grouped):
    """Each group of ``group`` consecutive bits is one of 2^(group−1) words, drawn at random from all 2^group.

    A control for parity: counts, chance levels and pieces are the same, but a model can only learn the list of words.

    >>> rule = CodeBook(length=36, group=3, seed=0)
    >>> rule.count() == 2**24, rule.chance() == 2**-12
    (True, True)
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"length": 36, "group": 3}, {"length": 36, "group": 6})
    group: int = setting(help="bits per group G; must divide the length", at_least=1, at_most=LARGEST)
    seed: int = setting(0, "seed of the list of words; data.seed draws the samples")

    @cached_property
    def words(self) -> Tensor:
        """The valid contents of a group (2^(group−1), group), in lexicographic order."""
        codes = numpy_stream(self.seed, "code book").permutation(1 << self.group)[: 1 << (self.group - 1)]
        return torch.from_numpy(np.sort(codes)[:, None] >> np.arange(self.group - 1, -1, -1) & 1)

    @cached_property
    def is_word(self) -> Tensor:
        """Whether a group is valid, by the integer that its bits make: bool (2^group,)."""
        table = torch.zeros(1 << self.group, dtype=torch.bool)
        table[self.codes(self.words)] = True
        return table

    def codes(self, groups: Tensor) -> Tensor:
        """The integers (…) that the bits of groups (…, group) make, the first bit the most significant."""
        places = 1 << torch.arange(self.group - 1, -1, -1, device=groups.device)
        return (groups * places).sum(dim=-1)

    def table_bytes(self) -> int:
        return (8 * self.group + 2) << (self.group - 1)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """An independent uniform word in every group."""
        chosen = rng.integers(0, len(self.words), size=(n, self.groups))
        return self.words.numpy().astype(np.uint8)[chosen].reshape(n, self.length)

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        groups = self.parts(self.as_samples(x))["group"]
        codes = self.codes(groups.long().clamp(0, 1))
        return {"group": self.is_word.to(codes.device)[codes] & are_symbols(groups, 2)}

    def log_partition(self, logits: Tensor) -> Tensor | None:
        """Sum over the words of every group; None where they are too many."""
        if self.group > SUMMED:
            return None
        pieces = self.grouped(logits)  # (n, groups, group, 2)
        zeros, ones = pieces.unbind(dim=3)
        words = self.words.to(pieces)  # (words, group)
        return (zeros @ (1 - words).T + ones @ words.T).logsumexp(dim=2).sum(dim=1)
