"""Group parity: D bits in D/G groups of G bits, each with an even number of ones (P1 §2).

The groups are consecutive, or scattered over all positions: then no window of G neighbouring bits sees a whole group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.core.seeds import numpy_stream
from twoclocks.rules.automaton import log_state_weights
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule, are_symbols

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Grouped(Rule):
    """Base class: bits in groups, of whose 2^group contents half are valid; a subclass says which."""

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

    def grouped(self, x: Tensor) -> Tensor:
        """Entries (n, length, …) as groups (n, groups, group, …)."""
        return x.reshape(len(x), self.groups, self.group, *x.shape[2:])

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {"group": self.grouped(x)}

    def count(self) -> int:
        return 1 << (self.length - self.groups)

    def part_counts(self) -> dict[str, int]:
        return {"group": 1 << (self.group - 1)}


@RULES.register("parity")
@dataclass(frozen=True, kw_only=True)
class Parity(Grouped):
    """Each group of ``group`` bits contains an even number of ones; groups are consecutive unless scattered.

    A scattered rule is the consecutive one with its positions permuted: counts and chance levels are the same. No group
    of it is consecutive, so n-grams of up to ``group`` bits cannot see the rule.

    >>> rule = Parity(length=36, group=3)
    >>> rule.count() == 2**24, rule.chance() == 2**-12
    (True, True)
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = tuple({"length": 36, "group": g} for g in (3, 2, 6, 36))
    exchangeable: ClassVar[str | None] = "group"
    scatter_seed: int | None = setting(
        None, "seed of a permutation that scatters the groups over all positions; none: consecutive", added=True
    )

    def check(self) -> None:
        super().check()
        if self.scatter_seed is not None and self.group in (1, self.length):
            fix = f"there is nothing to scatter with group = {self.group} of {self.length} bits; leave it out"
            raise SettingError("scatter_seed", self.scatter_seed, fix)

    @cached_property
    def positions(self) -> Tensor | None:
        """The positions of the bits of group 0, then of group 1, …; None: in order."""
        if self.scatter_seed is None:
            return None
        rng = numpy_stream(self.scatter_seed, "scattered groups")
        while True:  # about three times for pairs, once for others
            order = rng.permutation(self.length)
            if (np.ptp(order.reshape(self.groups, self.group), axis=1) >= self.group).all():  # none is consecutive
                return torch.from_numpy(order)

    def grouped(self, x: Tensor) -> Tensor:
        return super().grouped(x if self.positions is None else x[:, self.positions.to(x.device)])

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """All bits except the last of each group are uniform; the last one makes the parity even."""
        bits = rng.integers(0, 2, size=(n, self.groups, self.group), dtype=np.int64)
        bits[:, :, -1] = bits[:, :, :-1].sum(axis=2) % 2
        rows = bits.astype(np.uint8).reshape(n, self.length)
        return rows if self.positions is None else rows[:, np.argsort(self.positions.numpy())]

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        groups = self.parts(self.as_samples(x))["group"]
        return {"group": (groups.sum(dim=2) % 2 == 0) & are_symbols(groups, 2)}

    def log_partition(self, logits: Tensor) -> Tensor:
        ends = log_state_weights(self.grouped(logits), states=2, step=lambda odd, bit: odd ^ bit)
        return ends[..., 0].sum(dim=1)
