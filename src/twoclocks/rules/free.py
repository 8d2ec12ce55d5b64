"""No rule: every array of symbols is valid, so that a model can learn nothing but the training set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule, are_symbols

if TYPE_CHECKING:
    from torch import Tensor


@RULES.register("free")
@dataclass(frozen=True, kw_only=True)
class Free(Rule):
    """Any ``length`` entries over ``alphabet`` symbols.

    Every sample is valid, so there is no τ_rule. With length 1 and an encoding that maps every symbol to a point, a
    sample is the index of a point.

    >>> Free(length=3, alphabet=10).count()
    1000
    """

    has_rule: ClassVar[bool] = False
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"length": 4, "alphabet": 16},)
    length: int = setting(1, "number of entries", at_least=1, at_most=MOST_ENTRIES)
    alphabet: int = setting(help="number of different symbols", at_least=2, at_most=1 << 20)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def symbols(self) -> int:
        return self.alphabet

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        return rng.integers(0, self.alphabet, size=(n, self.length), dtype=np.int64)

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"symbol": x.reshape(len(x), self.length, 1)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        return {"symbol": are_symbols(self.parts(self.as_samples(x))["symbol"], self.alphabet)}

    def count(self) -> int:
        return int(self.alphabet**self.length)

    def part_counts(self) -> dict[str, int]:
        return {"symbol": self.alphabet}

    def log_partition(self, logits: Tensor) -> Tensor:
        return logits.logsumexp(dim=2).sum(dim=1)
