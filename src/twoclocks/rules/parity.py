"""Group parity: D bits in D/G consecutive groups of G bits, each with an even number of ones (P1 §2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.rules.automaton import log_state_weights
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule, are_symbols

if TYPE_CHECKING:
    from torch import Tensor


@RULES.register("parity")
@dataclass(frozen=True, kw_only=True)
class Parity(Rule):
    """Each group of ``group`` consecutive bits contains an even number of ones.

    >>> rule = Parity(length=36, group=3)
    >>> rule.count() == 2**24, rule.chance() == 2**-12
    (True, True)
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = tuple({"length": 36, "group": g} for g in (3, 2, 6, 36))
    length: int = setting(help="number of bits D", at_least=1, at_most=MOST_ENTRIES)
    group: int = setting(help="bits per group G; must divide the length", at_least=1)

    def check(self) -> None:
        if self.length % self.group:
            small = [g for g in range(1, math.isqrt(self.length) + 1) if self.length % g == 0]
            divisors = sorted({*small, *(self.length // g for g in small)})
            raise SettingError("group", self.group, f"it must divide length = {self.length}; use one of {divisors}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def symbols(self) -> int:
        return 2

    @property
    def groups(self) -> int:
        return self.length // self.group

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """All bits except the last of each group are uniform; the last one makes the parity even."""
        bits = rng.integers(0, 2, size=(n, self.groups, self.group), dtype=np.int64)
        bits[:, :, -1] = bits[:, :, :-1].sum(axis=2) % 2
        return bits.astype(np.uint8).reshape(n, self.length)

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"group": x.reshape(len(x), self.groups, self.group)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        groups = self.parts(self.as_samples(x))["group"]
        return {"group": (groups.sum(dim=2) % 2 == 0) & are_symbols(groups, 2)}

    def count(self) -> int:
        return 1 << (self.length - self.groups)

    def part_counts(self) -> dict[str, int]:
        return {"group": 1 << (self.group - 1)}

    def log_partition(self, logits: Tensor) -> Tensor:
        pieces = logits.reshape(len(logits), self.groups, self.group, 2)
        ends = log_state_weights(pieces, states=2, step=lambda odd, bit: odd ^ bit)
        return ends[..., 0].sum(dim=1)
