"""The base class of all rules: a set of valid arrays that can be sampled, checked and counted."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, final

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
MOST_LISTED = 1 << 18  # largest valid set that may be listed
MOST_ENTRIES = 1 << 16  # of one sample; the counts of larger rules take seconds to compute, their models terabytes
MOST_TRIED = 1 << 20  # most arrays of symbols that may be checked one by one to list the valid ones


class Listed(Protocol):
    """Rows that are read from the disk when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Rule(Settings):
    """A set of integer arrays of one shape over the symbols 0 … symbols−1.

    To add a rule: a subclass with the abstract members below, registered under a name, in one file of this folder.
    ``twoclocks.testing.check_rule`` then reports what is wrong with it. With ``log_partition`` the rule has an exact
    oracle at any size; without it the oracle lists the valid set, which must then be small.
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()  # settings for tables and figures, the papers' own first
    has_rule: ClassVar[bool] = True  # False: nothing can be invalid, so runs have no τ_rule and no validity
    is_image: ClassVar[bool] = False  # symbols are numbers: near ones look alike, and copies are near, not equal
    is_text: ClassVar[bool] = False  # symbols are tokens of a text, which ``as_text`` joins
    is_corpus: ClassVar[bool] = False  # a sample of a larger language: a model that learned it copies none by chance
    uniform_parts: ClassVar[bool] = True  # whether a piece of a valid sample is uniform over its valid contents
    exchangeable: ClassVar[str | None] = None  # kind of pieces that may change places: a valid sample stays valid

    @property
    def is_natural(self) -> bool:
        """Whether the data are images or texts: copies by chance are then measured on held-out ones."""
        return self.is_image or self.is_text

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """Number of different symbols q that an entry can be."""

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n independent samples (n, *shape) of any integer type, uniform on the valid set (or on ``support``)."""

    @abstractmethod
    def parts(self, x: Tensor) -> dict[str, Tensor]:
        """The pieces that the rule constrains separately, such as rows: {kind: (n, pieces, entries)}."""

    @abstractmethod
    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        """Whether each piece obeys the rule: {kind: bool (n, pieces)}."""

    @abstractmethod
    def count(self) -> int:
        """Exact size of the valid set."""

    @abstractmethod
    def part_counts(self) -> dict[str, int]:
        """Number of valid contents of a single piece, by kind."""

    def support(self) -> int:
        """Number of arrays that ``draw`` can return: the valid set, unless the generator is known to miss some."""
        return self.count()

    def listed(self) -> Array | Listed | None:
        """All different samples (support, *shape), of data that are shuffled and dealt instead of drawn."""
        return None

    def unseen(self) -> Array | Listed | None:
        """Samples that no run trains on, none of them in ``listed``; None: those that a run left out are held out."""
        return None

    def transposed(self) -> Rule | None:
        """The rule whose valid arrays are the transposes of these; None where it is not one of this family."""
        return None

    def table_bytes(self) -> int:
        """Memory of the tables that ``draw`` and ``parts_valid`` need, where it may be large."""
        return 0

    def log_partition(self, logits: Tensor) -> Tensor | None:
        """Log partition function, log Σ over valid x of exp Σ_i logits[:, i, x_i]: (n,), differentiable.

        ``logits`` has shape (n, entries, symbols). The gradient is the exact posterior of every entry for any noise
        (see ``twoclocks.oracles``); with zero logits the value is log count(). None: no closed form is known.
        """
        return None

    def enumerate(self) -> Tensor:
        """All arrays that ``draw`` can return, as (support, *shape); an error where they are too many to list."""
        if self.support() > MOST_LISTED:
            raise UserError(f"rule: {self} has more than {MOST_LISTED:,} arrays, too many to list; use a smaller rule")
        return self.members()

    def members(self) -> Tensor:
        """The arrays that ``enumerate`` returns; override it where checking all arrays of symbols is too slow."""
        entries = math.prod(self.shape)
        if self.symbols**entries > MOST_TRIED:
            raise UserError(
                f"rule: {self.symbols}^{entries} arrays are too many to check one by one; use a smaller rule"
            )
        candidates = all_strings(self.symbols, entries).reshape(-1, *self.shape)
        return candidates[self.is_valid(candidates)]

    def sample(self, n: int, seed: int) -> Tensor:
        """n independent uniform samples (n, *shape), int64, the same on every machine."""
        if not isinstance(n, int | np.integer) or n < 0:
            raise UserError(f"n: {n!r} is not allowed; use an integer of at least 0")
        rows = self.draw(n, numpy_stream(seed, "rule samples"))
        return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))

    @final
    def is_valid(self, x: Tensor) -> Tensor:
        """Which of the samples (n, *shape) obey the whole rule: bool (n,).

        A sample is valid if all its pieces are: a constraint on the whole sample is a piece of its own.
        """
        x = self.as_samples(x)
        return all_parts_valid(self.parts_valid(x)) & in_range(x, self.symbols)

    def chance(self) -> float:
        """Probability that an array of uniform symbols is valid."""
        return float(self.count() / self.symbols ** math.prod(self.shape))

    def part_chance(self) -> dict[str, float]:
        """Probability that a piece of uniform symbols is valid."""
        sizes = {kind: piece.shape[2] for kind, piece in self.parts(self.empty(1)).items()}
        return {kind: count / self.symbols ** sizes[kind] for kind, count in self.part_counts().items()}

    def copy_chance(self, n: int) -> float:
        """Probability that a sample of a model that learned the rule, and nothing else, is one of n training rows."""
        return 0.0 if self.is_corpus else min(1.0, n / self.support())

    def cube_copy_chance(self, n: int) -> float:
        """Probability that an array of uniform symbols is one of n training rows."""
        return float(n / self.symbols ** math.prod(self.shape))

    def as_text(self, x: Tensor) -> list[str]:
        """Symbols (n, *shape) of a rule with ``is_text`` as Python strings."""
        raise UserError(f"rule: {self} is no text")

    def characters_per_token(self, x: Tensor) -> float | None:
        """Characters per symbol of texts (n, *shape), on average; None where nobody knows."""
        return None

    def milestones(self) -> dict[str, int]:
        """Numbers of training samples, or steps, after which a theory expects parts of the rule to be learned, by name.

        Empty where there is no such theory. They are drawn in figures and are not used in any decision.
        """
        return {}

    def empty(self, n: int) -> Tensor:
        """n arrays of zeros in the shape and type of samples."""
        return torch.zeros((n, *self.shape), dtype=torch.int64)

    def as_samples(self, x: Tensor) -> Tensor:
        """Convert ``x`` (tensor, array or list) to a tensor (n, *shape) of integers, or raise an error."""
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


def all_strings(symbols: int, length: int) -> Tensor:
    """All strings of a length over the symbols (symbols^length, length), in lexicographic order."""
    places = symbols ** torch.arange(length - 1, -1, -1)
    return torch.arange(symbols**length)[:, None] // places % symbols


def all_parts_valid(parts_valid: Mapping[str, Tensor]) -> Tensor:
    """Whether all pieces of a row are valid, from the result of ``Rule.parts_valid``: bool (n,)."""
    return torch.stack([valid.all(dim=1) for valid in parts_valid.values()]).all(dim=0)


def in_range(x: Tensor, symbols: int) -> Tensor:
    """Whether all entries of a row (n, *shape) are symbols 0 … symbols−1: bool (n,)."""
    return are_symbols(x.flatten(1), symbols)


def are_symbols(pieces: Tensor, symbols: int) -> Tensor:
    """Whether all entries of a piece (…, entries) are symbols 0 … symbols−1: bool (…)."""
    if pieces.dtype == torch.uint8 and symbols > 255:  # 256 does not fit: torch would compare with 0
        return torch.ones(pieces.shape[:-1], dtype=torch.bool, device=pieces.device)
    return ((pieces >= 0) & (pieces < symbols)).all(dim=-1)


RULES: Registry[Rule] = Registry("rule", Rule)
