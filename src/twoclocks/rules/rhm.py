"""The Random Hierarchy Model, RHM (Cagnetta et al. 2024; P2 §4.1): strings of a random grammar with a fixed tree.

A root symbol is replaced by ``branching`` symbols, each of these again, ``depth`` times. At every level each symbol has
``synonyms`` productions. All right-hand sides of a level are different, so each string of leaves has exactly one
derivation, and a uniform derivation gives a uniform string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.lazy import torch
from twoclocks.core.seeds import numpy_stream
from twoclocks.rules.base import MOST_ENTRIES, RULES, Array, Rule

if TYPE_CHECKING:
    from torch import Tensor

MOST_SYMBOLS = 1 << 20  # of a vocabulary, and most synonyms


@RULES.register("rhm")
@dataclass(frozen=True, kw_only=True)
class RandomHierarchy(Rule):
    """Strings of a random unambiguous grammar on a regular tree: the Random Hierarchy Model.

    >>> RandomHierarchy(depth=3, branching=2, vocabulary=16, synonyms=4, rule_seed=0).count() == 16 * 4**7
    True
    """

    examples: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"depth": 3, "branching": 2, "vocabulary": 16, "synonyms": 4},
        {"depth": 5, "branching": 2, "vocabulary": 16, "synonyms": 3},
        {"depth": 3, "branching": 3, "vocabulary": 24, "synonyms": 12},
    )
    uniform_parts: ClassVar[bool] = False  # some symbols occur in more productions of the level above than others

    depth: int = setting(help="number of levels L of productions", at_least=1, at_most=16)
    branching: int = setting(help="children per node s; a string has s^L symbols", at_least=2, at_most=MOST_ENTRIES)
    vocabulary: int = setting(help="number of symbols v per level", at_least=2, at_most=MOST_SYMBOLS)
    synonyms: int = setting(help="productions m per symbol", at_least=1, at_most=MOST_SYMBOLS)
    rule_seed: int = setting(0, "seed of the grammar; data.seed draws the strings")

    def check(self) -> None:
        if self.branching**self.depth > MOST_ENTRIES:
            leaves = f"{self.branching}^{self.depth}"
            fix = f"strings would have {leaves} symbols; use a smaller tree, of {MOST_ENTRIES:,} leaves at most"
            raise SettingError("depth", self.depth, fix)
        if self.vocabulary**self.branching >= 1 << 62:
            raise SettingError(
                "vocabulary", self.vocabulary, f"{self.vocabulary}^{self.branching} strings are too many; use fewer"
            )
        most = self.vocabulary ** (self.branching - 1)
        if self.synonyms > most:
            strings = f"{self.vocabulary} symbols have {self.vocabulary}^{self.branching} strings of {self.branching}"
            raise SettingError("synonyms", self.synonyms, f"{strings}, that is {most} for each; use 1 to {most}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.branching**self.depth,)

    @property
    def symbols(self) -> int:
        return self.vocabulary

    @cached_property
    def productions(self) -> tuple[Tensor, ...]:
        """Right-hand sides of the productions of levels 1 … depth: (vocabulary, synonyms, branching) each."""
        tables = []
        for level in range(1, self.depth + 1):
            rng = numpy_stream(self.rule_seed, "grammar", level)
            strings = self.vocabulary**self.branching
            codes = rng.choice(strings, size=(self.vocabulary, self.synonyms), replace=False)
            tables.append(torch.from_numpy(codes[..., None] // self.place_values.numpy() % self.vocabulary))
        return tuple(tables)

    def table_bytes(self) -> int:
        return 8 * self.depth * self.vocabulary * self.synonyms * self.branching

    @cached_property
    def place_values(self) -> Tensor:
        """Powers of the vocabulary (branching,), which make an integer of a right-hand side."""
        return torch.tensor([self.vocabulary**power for power in range(self.branching - 1, -1, -1)])

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """From the root down to the leaves, a uniform production at every node."""
        nodes = rng.integers(0, self.vocabulary, size=(n, 1))
        for table in reversed(self.productions):
            chosen = rng.integers(0, self.synonyms, size=nodes.shape)
            nodes = table.numpy()[nodes, chosen].reshape(n, nodes.shape[1] * self.branching)
        return nodes

    def parts(self, x: Tensor) -> dict[str, Tensor]:
        """Layer ℓ: the leaves below each node of level ℓ."""
        return {
            f"layer_{level}": x.reshape(len(x), self.nodes(level), self.branching**level)
            for level in range(1, self.depth + 1)
        }

    def nodes(self, level: int) -> int:
        """Number of nodes of the tree at a level; level 0 are the leaves."""
        return int(self.branching ** (self.depth - level))

    def parts_valid(self, x: Tensor) -> dict[str, Tensor]:
        """A node is valid if its leaves have a derivation from some symbol."""
        parsed = self.parse(x)
        return {f"layer_{level}": parsed[level] >= 0 for level in range(1, self.depth + 1)}

    def parse(self, x: Tensor) -> list[Tensor]:
        """The symbol of every node at levels 0 … depth, (n, nodes) each; −1 where the leaves have no derivation."""
        used = self.productions_used(x)
        return [self.leaves(x), *(production.div(self.synonyms, rounding_mode="floor") for production in used)]

    def productions_used(self, x: Tensor) -> list[Tensor]:
        """The production at every node of levels 1 … depth, symbol·synonyms + synonym, (n, nodes) each; −1: none."""
        symbols, found = self.leaves(x), []
        for level, table in enumerate(self.productions, start=1):
            strings = symbols.reshape(len(symbols), self.nodes(level), self.branching)
            codes = (strings * self.place_values.to(symbols.device)).sum(dim=2)
            known, order = (table * self.place_values).sum(dim=2).flatten().to(symbols.device).sort()
            index = torch.searchsorted(known, codes).clamp(max=len(known) - 1)
            is_known = (known[index] == codes) & (strings >= 0).all(dim=2)
            found.append(torch.where(is_known, order[index], -1))
            symbols = found[-1].div(self.synonyms, rounding_mode="floor")  # −1 stays −1
        return found

    def leaves(self, x: Tensor) -> Tensor:
        """The symbols of the leaves (n, entries); −1 where an entry is not a symbol."""
        nodes = self.as_samples(x).long()
        return torch.where((nodes >= 0) & (nodes < self.vocabulary), nodes, -1)

    def count(self) -> int:
        return self.strings_below(self.depth)

    def strings_below(self, level: int) -> int:
        """Number of strings of leaves below a node of a level, over all symbols of that node."""
        inner = (self.branching**level - 1) // (self.branching - 1)
        return int(self.vocabulary * self.synonyms**inner)

    def part_counts(self) -> dict[str, int]:
        return {f"layer_{level}": self.strings_below(level) for level in range(1, self.depth + 1)}

    def sample_complexity(self, level: int) -> int:
        """P*_ℓ = v·m^(ℓ+1), the number of training samples needed to learn the productions of layer ℓ (P2 §4.2).

        >>> RandomHierarchy(depth=3, branching=2, vocabulary=16, synonyms=4).sample_complexity(3)
        4096
        """
        if not 1 <= level <= self.depth:
            raise UserError(f"level: {level!r} is not allowed; use a layer from 1 to {self.depth}")
        return int(self.vocabulary * self.synonyms ** (level + 1))

    def milestones(self) -> dict[str, int]:
        """P2: layer ℓ is learned after about τ*_ℓ = P*_ℓ steps, given as many samples; the whole rule after P*."""
        levels = range(1, self.depth + 1)
        return {f"P*_{level}" if level < self.depth else "P*": self.sample_complexity(level) for level in levels}

    def log_partition(self, logits: Tensor) -> Tensor:
        return self.upward_messages(logits)[-1].squeeze(1).logsumexp(dim=1)

    def upward_messages(self, logits: Tensor, fields: list[Tensor] | None = None) -> list[Tensor]:
        """Belief propagation from the leaves to the root: (n, nodes, vocabulary) at levels 0 … depth.

        Entry a of a node is the log-weight of all derivations below it from symbol a. ``fields`` are added at every
        level; the gradient of the sum over the root with respect to them is the posterior of the nodes.
        """
        levels = [logits if fields is None else logits + fields[0]]
        for level, table in enumerate(self.productions, start=1):
            below = levels[-1].reshape(len(logits), self.nodes(level), self.branching, self.vocabulary)
            table = table.to(logits.device)
            # Σ over children of the log-weight of the symbol that each production gives to this child.
            weight = torch.stack([below[:, :, child, table[..., child]] for child in range(self.branching)]).sum(dim=0)
            up = weight.logsumexp(dim=3)  # (n, nodes, vocabulary)
            levels.append(up if fields is None else up + fields[level])
        return levels

    def members(self) -> Tensor:
        # strings[a]: all strings of leaves below a symbol a of the current level.
        strings = [torch.tensor([[symbol]]) for symbol in range(self.vocabulary)]
        for table in self.productions:
            strings = [
                torch.cat([concatenations([strings[c] for c in row]) for row in rows.tolist()]) for rows in table
            ]
        return torch.cat(strings)


def concatenations(choices: list[Tensor]) -> Tensor:
    """All concatenations of one row from each table."""
    result = choices[0]
    for more in choices[1:]:
        left = result.repeat_interleave(len(more), dim=0)
        result = torch.cat([left, more.repeat(len(result), 1)], dim=1)
    return result
