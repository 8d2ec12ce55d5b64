"""How symbols are shown to a network, and how its output is read back."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from twoclocks.core.config import Settings
from twoclocks.core.errors import SettingError
from twoclocks.core.registry import Registry
from twoclocks.rules.base import Rule


class Decoded(NamedTuple):
    symbols: Tensor  # (n, *rule.shape), int64
    distance: Tensor  # (n,): the largest distance of an entry to the code book, P1's quantization distance


@dataclass(frozen=True, kw_only=True)
class Encoding(Settings):
    kind: ClassVar[str]  # what kind of network reads it: "image" or "tokens"

    def check_rule(self, rule: Rule) -> None:
        """Raise SettingError where the rule has no such encoding."""

    @abstractmethod
    def shape(self, rule: Rule) -> tuple[int, ...]:
        """Shape of one encoded sample."""

    @abstractmethod
    def encode(self, rule: Rule, symbols: Tensor) -> Tensor:
        """Symbols (n, *rule.shape) to network input (n, *shape)."""

    @abstractmethod
    def decode(self, rule: Rule, x: Tensor) -> Decoded:
        """Network output back to the nearest symbols, with the distance to them."""


ENCODINGS: Registry[Encoding] = Registry("encoding", Encoding)


@ENCODINGS.register("sign")
@dataclass(frozen=True, kw_only=True)
class SignImage(Encoding):
    """Bits as −1 and +1 in a one-channel image, as square as the length allows (36 bits: 6×6)."""

    kind: ClassVar[str] = "image"

    def check_rule(self, rule: Rule) -> None:
        if rule.symbols != 2:
            raise SettingError("name", "sign", f"it needs a binary rule, this one has {rule.symbols} symbols")

    def shape(self, rule: Rule) -> tuple[int, ...]:
        rows, columns = rule.shape if len(rule.shape) == 2 else squarest(math.prod(rule.shape))
        return (1, rows, columns)

    def encode(self, rule: Rule, symbols: Tensor) -> Tensor:
        return (2.0 * symbols.float() - 1).reshape(len(symbols), *self.shape(rule))

    def decode(self, rule: Rule, x: Tensor) -> Decoded:
        distance = (x.abs() - 1).abs().flatten(1).amax(dim=1)
        return Decoded((x > 0).long().reshape(len(x), *rule.shape), distance)


@ENCODINGS.register("tokens")
@dataclass(frozen=True, kw_only=True)
class Tokens(Encoding):
    """Symbols as a sequence of tokens, row by row; nothing can fall between two symbols."""

    kind: ClassVar[str] = "tokens"

    def shape(self, rule: Rule) -> tuple[int, ...]:
        return (math.prod(rule.shape),)

    def encode(self, rule: Rule, symbols: Tensor) -> Tensor:
        return symbols.long().flatten(1)

    def decode(self, rule: Rule, x: Tensor) -> Decoded:
        return Decoded(x.long().reshape(len(x), *rule.shape), x.new_zeros(len(x)).float())


def squarest(length: int) -> tuple[int, int]:
    """The two factors of ``length`` that are closest to each other."""
    rows = max(r for r in range(1, math.isqrt(length) + 1) if length % r == 0)
    return rows, length // rows
