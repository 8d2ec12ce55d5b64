"""What a rule is: a set of valid arrays that one can sample, check and count."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from twoclocks.core.config import Settings
from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch
from twoclocks.core.registry import Registry
from twoclocks.core.seeds import numpy_stream

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.integer[Any]]
ENUMERABLE = 1 << 18  # valid sets up to this size may be listed
TRIABLE = 1 << 20  # and all arrays of symbols may be tried, up to this many


@dataclass(frozen=True, kw_only=True)
class Rule(Settings):
    """A set of integer arrays of one shape over the symbols 0 … symbols−1.

    To add a rule: a subclass with the abstract members below, registered under a name, in one file of this folder.
    ``twoclocks.testing.check_rule`` then says what is wrong with it. ``log_partition`` gives it an exact oracle of any
    size; without it the oracle lists the valid set, which must then be small.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()  # settings for tables and pictures, the papers' first
    only_a_sample: ClassVar[bool] = False  # of something larger, as texts are: who learned it makes no copies by chance
    uniform_parts: ClassVar[bool] = True  # whether a piece of a true sample is uniform over its valid contents

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """How many symbols an entry can take."""

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n independent samples (n, *shape) of any integer type, uniform on the valid set (or on ``support``)."""

    @abstractmethod
    def parts(self, x: Tensor) -> dict[str, Tensor]:
        """The pieces that the rule constrains one by one: {kind: (n, pieces, entries)}."""

    @abstractmethod
    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        """Whether each piece obeys the rule: {kind: bool (n, pieces)}."""

    @abstractmethod
    def count(self) -> int:
        """Exact size of the valid set."""

    @abstractmethod
    def part_counts(self) -> dict[str, int]:
        """How many contents a single piece of each kind can validly have."""

    def support(self) -> int:
        """How many arrays ``draw`` can return: the whole valid set, unless a generator is known to miss some."""
        return self.count()

    def log_partition(self, logits: Tensor) -> Tensor | None:
        """log Σ over valid x of exp Σ_i logits[:, i, x_i], for logits (n, entries, symbols): (n,), differentiable.

        Its gradient is the exact posterior of every entry, whatever the noise (see ``twoclocks.oracles``); with zero
        logits it is log count(). None: no closed form is known.
        """
        return None

    def enumerate(self) -> Tensor:
        """Every array that ``draw`` can return (support, *shape), where they are few enough to be listed."""
        if self.support() > ENUMERABLE:
            raise UserError(f"rule: {self} has more than {ENUMERABLE:,} arrays, too many to list; use a smaller rule")
        return self.members()

    def members(self) -> Tensor:
        """What ``enumerate`` lists; override where there is a better way than to try all arrays of symbols."""
        entries = math.prod(self.shape)
        if self.symbols**entries > TRIABLE:
            raise UserError(f"rule: {self.symbols}^{entries} arrays are too many to try; use a smaller rule")
        every = all_words(self.symbols, entries).reshape(-1, *self.shape)
        return every[self.is_valid(every)]

    def sample(self, n: int, seed: int) -> Tensor:
        """n independent uniform samples (n, *shape), int64, the same on every machine."""
        if not isinstance(n, int | np.integer) or n < 0:
            raise UserError(f"n: {n!r} is not allowed; use a whole number of samples")
        rows = self.draw(n, numpy_stream(seed, "rule samples"))
        return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))

    @final
    def is_valid(self, x: Tensor) -> Tensor:
        """Which of the samples (n, *shape) obey the whole rule: bool (n,).

        The pieces are the rule: what constrains a sample as a whole is a piece of its own.
        """
        x = self.as_samples(x)
        return all_pieces(self.parts_valid(x)) & in_range(x, self.symbols)

    def chance(self) -> float:
        """Probability that an array of uniform symbols is valid."""
        return float(self.count() / self.symbols ** math.prod(self.shape))

    def part_chance(self) -> dict[str, float]:
        """Probability that a piece of uniform symbols is valid."""
        sizes = {kind: piece.shape[2] for kind, piece in self.parts(self.empty(1)).items()}
        return {kind: count / self.symbols ** sizes[kind] for kind, count in self.part_counts().items()}

    def copy_chance(self, n: int) -> float:
        """Probability that a sample of who learned the rule is one of n training rows."""
        return 0.0 if self.only_a_sample else min(1.0, n / self.support())

    def cube_copy_chance(self, n: int) -> float:
        """Probability that an array of uniform symbols is one of n training rows."""
        return float(n / self.symbols ** math.prod(self.shape))

    def milestones(self) -> dict[str, int]:
        """After how many training samples, or steps, a theory expects parts of the rule to be learned: {name: number}.

        Nothing, where there is no such theory. They are drawn beside what was measured and decide nothing.
        """
        return {}

    def empty(self, n: int) -> Tensor:
        return torch.zeros((n, *self.shape), dtype=torch.int64)

    def as_samples(self, x: Tensor) -> Tensor:
        """``x`` as a tensor of this rule's shape; arrays and lists are taken too."""
        x = torch.as_tensor(x)
        if x.dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64):  # types without arithmetic
            x = x.long()
        if x.is_floating_point() or x.is_complex():
            raise UserError(f"samples: dtype {x.dtype} is not allowed; decode them to integer symbols first")
        if tuple(x.shape[1:]) != self.shape or x.dim() == 0:
            raise UserError(
                f"samples: shape {tuple(x.shape)} is not allowed; use (n, {', '.join(map(str, self.shape))})"
            )
        return x


def all_words(symbols: int, length: int) -> Tensor:
    """Every word of a length over the symbols (symbols^length, length), in order."""
    places = symbols ** torch.arange(length - 1, -1, -1)
    return torch.arange(symbols**length)[:, None] // places % symbols


def all_pieces(verdicts: Mapping[str, Tensor]) -> Tensor:
    """Rows whose pieces of every kind are valid, from what ``parts_valid`` says: bool (n,)."""
    return torch.stack([valid.all(dim=1) for valid in verdicts.values()]).all(dim=0)


def in_range(x: Tensor, symbols: int) -> Tensor:
    """Rows whose entries are all symbols: bool (n,)."""
    return are_symbols(x.flatten(1), symbols)


def are_symbols(pieces: Tensor, symbols: int) -> Tensor:
    """Pieces (…, entries) whose entries are all symbols: bool (…)."""
    return ((pieces >= 0) & (pieces < symbols)).all(dim=-1)


RULES: Registry[Rule] = Registry("rule", Rule)
