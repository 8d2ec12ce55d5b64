"""Counting rules: they fix how many entries are one, in the whole array or in each row (P1 B.4.1)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.core.lazy import torch
from twoclocks.rules.automaton import log_state_weights
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule, all_strings, are_symbols

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Counted(Rule):
    """Base class of counting rules: arrays made of lines of bits, each with an allowed number of ones."""

    @property
    @abstractmethod
    def lines(self) -> tuple[str, int, int]:
        """Name of a line, number of lines, bits per line."""

    @property
    @abstractmethod
    def allowed(self) -> tuple[int, ...]:
        """The numbers of ones that a line may have, each once."""

    @property
    def symbols(self) -> int:
        return 2

    @property
    def line_counts(self) -> dict[int, int]:
        """Number of different lines with each allowed number of ones: {ones: lines}."""
        return {ones: math.comb(self.lines[2], ones) for ones in self.allowed}

    def draw_ones(self, n: int, rng: np.random.Generator) -> Array:
        """Draw the number of ones of each line (n, lines), such that lines are independent and uniform."""
        return draw_weighted(self.line_counts, (n, self.lines[1]), rng)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Bit by bit, a one with probability (ones left to set) / (bits left): all contents are equally likely."""
        _, lines, width = self.lines
        left = self.draw_ones(n, rng)
        bits = np.empty((n, lines, width), dtype=np.uint8)
        for position in range(width):
            bits[:, :, position] = rng.integers(0, width - position, size=(n, lines)) < left
            left = left - bits[:, :, position]
        return bits.reshape(n, *self.shape)

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        name, lines, width = self.lines
        return {name: x.reshape(len(x), lines, width)}

    def ones(self, x: Tensor) -> Tensor:
        """Number of ones in each line (n, lines); −1 where a line contains other symbols than 0 and 1."""
        x = self.as_samples(x)
        lines = x.reshape(len(x), *self.lines[1:])
        return torch.where(are_symbols(lines, 2), lines.sum(dim=2), -1)

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        ones = self.ones(x)
        return {self.lines[0]: torch.isin(ones, torch.tensor(self.allowed, device=ones.device))}

    def members(self) -> Tensor:
        """All combinations of valid lines."""
        return self.combined(torch.cat([line_contents(self.lines[2], ones) for ones in self.allowed]))

    def combined(self, contents: Tensor) -> Tensor:
        """Every array whose lines are among ``contents`` (choices, width)."""
        return contents[all_strings(len(contents), self.lines[1])].reshape(-1, *self.shape)

    def count(self) -> int:
        return int(sum(self.line_counts.values()) ** self.lines[1])

    def part_counts(self) -> dict[str, int]:
        return {self.lines[0]: sum(self.line_counts.values())}

    def line_weights(self, logits: Tensor) -> Tensor:
        """Log of the summed weight of each line's contents, by their number of ones: (n, lines, allowed)."""
        _, lines, width = self.lines
        most = max(self.allowed)
        ends = log_state_weights(
            logits.reshape(len(logits), lines, width, 2),
            states=most + 1,
            step=lambda ones, symbol: ones + symbol if ones + symbol <= most else None,
        )
        return ends[..., list(self.allowed)]

    def log_partition(self, logits: Tensor) -> Tensor:
        return self.line_weights(logits).logsumexp(dim=2).sum(dim=1)


@RULES.register("exact_k")
@dataclass(frozen=True, kw_only=True)
class ExactK(Counted):
    """Exactly ``k`` of ``length`` bits are one.

    >>> ExactK(length=36, k=18).count()
    9075135300
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = tuple({"length": 36, "k": k} for k in (18, 6, 9, 12))
    length: int = setting(help="number of bits D", at_least=1, at_most=MOST_ENTRIES)
    k: int = setting(help="how many of them are one", at_least=0)

    def check(self) -> None:
        check_ones("k", (self.k,), self.length, "length")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def lines(self) -> tuple[str, int, int]:
        return "group", 1, self.length

    @property
    def allowed(self) -> tuple[int, ...]:
        return (self.k,)


@dataclass(frozen=True, kw_only=True)
class CountedGrid(Counted):
    """Base class of rules on the number of ones in the rows of a square grid."""

    exchangeable: ClassVar[str | None] = "row"
    side: int = setting(help="rows and columns of the grid", at_least=1, at_most=math.isqrt(MOST_ENTRIES))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.side, self.side)

    @property
    def lines(self) -> tuple[str, int, int]:
        return "row", self.side, self.side


@RULES.register("row_k")
@dataclass(frozen=True, kw_only=True)
class RowK(CountedGrid):
    """Every row of a square grid holds exactly ``k`` ones.

    >>> RowK(side=6, k=3).count() == 20**6
    True
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = tuple({"side": 6, "k": k} for k in (3, 1, 2, 4))
    k: int = setting(help="ones in every row", at_least=0)

    def check(self) -> None:
        check_ones("k", (self.k,), self.side, "side")

    @property
    def allowed(self) -> tuple[int, ...]:
        return (self.k,)


@dataclass(frozen=True, kw_only=True)
class CountedSets(CountedGrid):
    """Base class of rules on grids with several allowed numbers of ones per row."""

    ks: tuple[int, ...] = setting(help="allowed numbers of ones, as a list", at_least=0)

    def check(self) -> None:
        check_ones("ks", self.ks, self.side, "side")
        object.__setattr__(self, "ks", tuple(sorted(self.ks)))  # a set: its order must not change the samples

    @property
    def allowed(self) -> tuple[int, ...]:
        return self.ks


@RULES.register("row_variable_k")
@dataclass(frozen=True, kw_only=True)
class RowVariableK(CountedSets):
    """The number of ones in each row is one of ``ks``; rows may have different numbers.

    >>> RowVariableK(side=6, ks=(2, 4)).count() == (15 + 15) ** 6
    True
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(
        {"side": 6, "ks": ks} for ks in ((2, 3), (1, 2, 3), (2, 4))
    )


@RULES.register("global_k")
@dataclass(frozen=True, kw_only=True)
class GlobalK(CountedSets):
    """All rows have the same number of ones, which is one of ``ks``.

    >>> GlobalK(side=6, ks=(2, 4)).count() == 15**6 + 15**6
    True
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = RowVariableK.examples
    uniform_parts: ClassVar[bool] = False  # P(ones of a row) depends on how many contents it leaves to the other rows

    def draw_ones(self, n: int, rng: np.random.Generator) -> Array:
        grids = {ones: count**self.side for ones, count in self.line_counts.items()}
        return np.repeat(draw_weighted(grids, (n, 1), rng), self.side, axis=1)

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        return {**super().parts(x), "grid": x.reshape(len(x), 1, self.side**2)}

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        """Whether each row has an allowed number of ones; and, as kind "grid", whether all rows have the same one."""
        ones, rows = self.ones(x), super().parts_valid(x)["row"]
        return {"row": rows, "grid": ((ones == ones[:, :1]) & rows).all(dim=1, keepdim=True)}

    def count(self) -> int:
        return sum(count**self.side for count in self.line_counts.values())

    def part_counts(self) -> dict[str, int]:
        return {**super().part_counts(), "grid": self.count()}

    def members(self) -> Tensor:
        return torch.cat([self.combined(line_contents(self.side, ones)) for ones in self.allowed])

    def log_partition(self, logits: Tensor) -> Tensor:
        return self.line_weights(logits).sum(dim=1).logsumexp(dim=1)


def line_contents(width: int, ones: int) -> Tensor:
    """All lines of ``width`` bits with a given number of ones: (lines, width)."""
    lines = torch.zeros(math.comb(width, ones), width, dtype=torch.int64)
    for row, positions in enumerate(combinations(range(width), ones)):
        lines[row, list(positions)] = 1
    return lines


def draw_weighted(weights: Mapping[int, int], size: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw keys with probabilities in proportion to their weights, which are integers of any size."""
    total = sum(weights.values())
    shares = np.array([weight / total for weight in weights.values()])
    return np.array(list(weights))[rng.choice(len(shares), size=size, p=shares / shares.sum())]


def check_ones(field: str, ks: tuple[int, ...], width: int, width_field: str) -> None:
    """Raise SettingError unless the numbers of ones are distinct, at least one, and at most ``width``."""
    for k in ks:
        if k > width:
            raise SettingError(field, k, f"a line has only {width_field} = {width} bits; use 0 to {width}")
    if not ks:
        raise SettingError(field, [], f"give at least one number of ones, for example [{min(2, width)}]")
    if len(set(ks)) < len(ks):
        raise SettingError(field, list(ks), f"a number appears twice; use {sorted(set(ks))}")
