"""Encodings: from integer symbols to network input, and from network output back to symbols."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor


class Arrays(Protocol):
    """Anything with the shape and the number of symbols of its arrays: a rule, or a plain ``Space``."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def symbols(self) -> int: ...


class Space(NamedTuple):
    """Shape and number of symbols of arrays for which no rule is known."""

    shape: tuple[int, ...]
    symbols: int = 2


class Decoded(NamedTuple):
    """Symbols that were read from network output, and how far that output was from them."""

    symbols: Tensor  # (n, *rule.shape), int64
    distance: Tensor  # (n,): largest distance of an entry to the nearest code, P1's quantization distance


@dataclass(frozen=True, kw_only=True)
class Encoding(Settings):
    """Base class of encodings; to add one, register a subclass in ``ENCODINGS``."""

    kind: ClassVar[str]  # of network input: "image" or "tokens"

    def check_rule(self, rule: Arrays) -> None:
        """Raise SettingError if the rule cannot be encoded this way."""

    @abstractmethod
    def shape(self, rule: Arrays) -> tuple[int, ...]:
        """Shape of one encoded sample."""

    @abstractmethod
    def encode(self, rule: Arrays, symbols: Tensor) -> Tensor:
        """Convert symbols (n, *rule.shape) to network input (n, *shape)."""

    @abstractmethod
    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        """Convert network output to the nearest symbols, with the distance to them."""

    def score_bytes(self, rule: Arrays) -> int:
        """Memory per sample of what ``decode`` computes for every symbol of every entry."""
        return 0

    def unit(self, rule: Arrays) -> float:
        """Half the smallest distance between the codes of two symbols, the unit of noise and distances: 1 for ±1."""
        return 1.0

    def codes(self, symbols: int) -> Tensor | None:
        """The point of each symbol (symbols, channels), float64; None where symbols are not points."""
        return None

    def scores(self, rule: Arrays, x: Tensor) -> Tensor | None:
        """How well each symbol matches each entry of x (n, entries, symbols); None where symbols are not points."""
        return None


ENCODINGS: Registry[Encoding] = Registry("encoding", Encoding)


@dataclass(frozen=True, kw_only=True)
class ImageEncoding(Encoding):
    """Base class: each entry becomes a pixel, and each symbol a vector of channel values (its code).

    Sequences are laid out row by row in an image as square as their length allows (36 entries: 6×6).
    """

    kind: ClassVar[str] = "image"

    @abstractmethod
    def codes(self, symbols: int) -> Tensor:
        """The channel values of each symbol (symbols, channels), float64."""

    def shape(self, rule: Arrays) -> tuple[int, ...]:
        return (self.codes(rule.symbols).shape[1], *layout(rule))

    def encode(self, rule: Arrays, symbols: Tensor) -> Tensor:
        if not bool(((symbols >= 0) & (symbols < rule.symbols)).all()):
            raise UserError(f"symbols: some lie outside 0 to {rule.symbols - 1}; remove or correct them")
        codes = self.codes(rule.symbols).float().to(symbols.device)
        pixels = codes[symbols.flatten(1).long()]  # (n, entries, channels)
        return pixels.transpose(1, 2).reshape(len(symbols), *self.shape(rule))

    def score_bytes(self, rule: Arrays) -> int:
        return 8 * math.prod(rule.shape) * rule.symbols

    def unit(self, rule: Arrays) -> float:
        codes = self.codes(rule.symbols)
        distances = torch.cdist(codes, codes)
        return float(distances[distances > 0].min()) / 2 if len(codes) > 1 else 1.0

    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        codes = self.codes(rule.symbols).to(x)
        nearest = self.scores(rule, x.double()).argmax(dim=2)  # (n, entries); thousands of symbols need float64
        distance = (pixels_of(x, codes.shape[1]) - codes[nearest]).abs().flatten(1).amax(dim=1)
        return Decoded(nearest.reshape(len(x), *rule.shape), distance)

    def scores(self, rule: Arrays, x: Tensor) -> Tensor:
        """Score x·c − |c|²/2 of each symbol's code c: (n, entries, symbols), largest for the nearest symbol.

        Divided by σ² it is, up to a constant, the log-likelihood of the symbol under Gaussian noise.
        """
        codes = self.codes(rule.symbols).to(x)
        return pixels_of(x, codes.shape[1]) @ codes.T - codes.square().sum(dim=1) / 2


def pixels_of(x: Tensor, channels: int) -> Tensor:
    """Reshape images (n, channels, …) to (n, entries, channels); the axis of a single channel may be missing."""
    return x.reshape(len(x), channels, math.prod(x.shape[1:]) // channels).transpose(1, 2)


@ENCODINGS.register("scalar")
@dataclass(frozen=True, kw_only=True)
class ScalarImage(ImageEncoding):
    """Each symbol is a number; symbols are evenly spaced from −1 to +1 in a one-channel image."""

    def codes(self, symbols: int) -> Tensor:
        return torch.linspace(-1, 1, symbols, dtype=torch.float64)[:, None]


@ENCODINGS.register("sign")
@dataclass(frozen=True, kw_only=True)
class SignImage(ScalarImage):
    """Bits as −1 and +1 in a one-channel image: the scalar encoding of two symbols."""

    def check_rule(self, rule: Arrays) -> None:
        if rule.symbols != 2:
            fix = f"it needs a binary rule, this one has {rule.symbols} symbols; use scalar or one_hot"
            raise SettingError("name", "sign", fix)


@ENCODINGS.register("one_hot")
@dataclass(frozen=True, kw_only=True)
class OneHotImage(ImageEncoding):
    """One channel per symbol: 1 where the entry is that symbol, 0 elsewhere."""

    most_symbols: ClassVar[int] = 4096  # its table of codes is the square of that

    zero_mean: bool = setting(False, "subtract 1/symbols, so that the channels of a pixel sum to zero")

    def check_rule(self, rule: Arrays) -> None:
        if rule.symbols > self.most_symbols:
            fix = f"the rule has {rule.symbols:,} symbols, and each would be a channel; use scalar, or fewer symbols"
            raise SettingError("name", "one_hot", fix)

    def codes(self, symbols: int) -> Tensor:
        return torch.eye(symbols, dtype=torch.float64) - (1 / symbols if self.zero_mean else 0)


@ENCODINGS.register("pixels")
@dataclass(frozen=True, kw_only=True)
class Pixels(Encoding):
    """Values 0 to 255 of a real image, with its channels, as numbers from −1 to 1."""

    kind: ClassVar[str] = "image"

    def check_rule(self, rule: Arrays) -> None:
        if len(rule.shape) != 3 or rule.symbols != 256:
            raise SettingError("name", "pixels", "it encodes real images; use rule.name: images, or another encoding")

    def shape(self, rule: Arrays) -> tuple[int, ...]:
        return rule.shape

    def encode(self, rule: Arrays, symbols: Tensor) -> Tensor:
        return symbols.float() / 127.5 - 1

    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        symbols = ((x.float() + 1) * 127.5).round().clamp(0, rule.symbols - 1).long()
        return Decoded(symbols, (x.float() - self.encode(rule, symbols)).abs().flatten(1).amax(dim=1))


@ENCODINGS.register("tokens")
@dataclass(frozen=True, kw_only=True)
class Tokens(Encoding):
    """Symbols as a sequence of tokens, row by row; the distance to the nearest symbol is always 0."""

    kind: ClassVar[str] = "tokens"

    def shape(self, rule: Arrays) -> tuple[int, ...]:
        return (math.prod(rule.shape),)

    def encode(self, rule: Arrays, symbols: Tensor) -> Tensor:
        return symbols.long().flatten(1)

    def decode(self, rule: Arrays, x: Tensor) -> Decoded:
        return Decoded(x.long().reshape(len(x), *rule.shape), x.new_zeros(len(x)).float())


def layout(rule: Arrays) -> tuple[int, ...]:
    """Rows and columns of the image of an array: its own, or those of an image as square as possible."""
    return rule.shape if len(rule.shape) == 2 else squarest(math.prod(rule.shape))


def squarest(length: int) -> tuple[int, int]:
    """The two factors of ``length`` that are closest to each other."""
    rows = max(r for r in range(1, math.isqrt(length) + 1) if length % r == 0)
    return rows, length // rows


def default_encoding(kind: str, rule: Arrays) -> Encoding:
    """The usual encoding for a kind of network input: tokens; or an image, ±1 for bits, else evenly spaced symbols.

    Real images keep their channels.
    """
    image = "pixels" if len(rule.shape) == 3 else "sign" if rule.symbols == 2 else "scalar"
    names = {"image": image, "tokens": "tokens"}
    return ENCODINGS.create(names[kind])
