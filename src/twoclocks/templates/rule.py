"""A rule of your own: palindromes, strings that read the same in both directions.

Save this file, change it, and use it:

    twoclocks list templates rule > my_rule.py
    twoclocks list rules --import my_rule.py
    twoclocks run demo --import my_rule.py --rule.name palindrome --rule.length 24
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.rules.base import RULES, Array, Rule, are_symbols


@RULES.register("palindrome")  # the name in settings: --rule.name palindrome
@dataclass(frozen=True, kw_only=True)
class Palindrome(Rule):
    """Strings that equal their reverse."""

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"length": 12},)  # shown by `twoclocks list rules`
    length: int = setting(help="number of symbols; an even number", at_least=2)
    alphabet: int = setting(2, "how many different symbols there are", at_least=2)

    def check(self) -> None:
        if self.length % 2:
            raise SettingError("length", self.length, f"use an even number, for example {self.length + 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def symbols(self) -> int:
        return self.alphabet

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n samples (n, length), uniform over all palindromes; all randomness comes from ``rng``."""
        half = rng.integers(0, self.alphabet, size=(n, self.length // 2))
        return np.concatenate([half, half[:, ::-1]], axis=1)

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        """The pieces that the rule constrains one by one, here mirrored pairs: {kind: (n, pieces, entries)}."""
        half = self.length // 2
        return {"pair": torch.stack([x[:, :half], x.flip(1)[:, :half]], dim=2)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        """Whether each piece obeys the rule: {kind: bool (n, pieces)}. A sample is valid if all its pieces are."""
        pairs = self.parts(self.as_samples(x))["pair"]
        return {"pair": (pairs[:, :, 0] == pairs[:, :, 1]) & are_symbols(pairs, self.alphabet)}

    def count(self) -> int:
        """Exact number of palindromes."""
        return int(self.alphabet ** (self.length // 2))

    def part_counts(self) -> dict[str, int]:
        """How many valid contents a single piece of each kind has."""
        return {"pair": self.alphabet}


# In a test of yours:
#     from twoclocks.testing import check_rule
#     check_rule(Palindrome(length=6))
