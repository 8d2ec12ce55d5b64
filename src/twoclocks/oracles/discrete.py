"""Exact posteriors under noise that replaces tokens by uniform symbols or by a mask (P2's D3PM and MD4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.constants import MASK
from twoclocks.core.errors import UserError
from twoclocks.oracles.posterior import Posterior, layer_posteriors, rule_posterior
from twoclocks.rules.automaton import LOG_ZERO
from twoclocks.rules.base import Rule
from twoclocks.rules.rhm import RandomHierarchy


@dataclass(frozen=True)
class Corruption(ABC):
    """Base class: noise that replaces each entry with probability ``level``, a float or one per row (n,)."""

    level: float | Tensor

    def __post_init__(self) -> None:
        level = torch.as_tensor(self.level)
        if not bool(((level >= 0) & (level <= 1)).all()):
            raise UserError(f"level: {self.level} is not allowed; use a probability from 0 to 1")

    def level_like(self, x: Tensor) -> Tensor:
        """The level as (n, 1, …) or (1, 1, …), so that it broadcasts against x (n, …) row by row."""
        return torch.as_tensor(self.level, device=x.device).double().reshape(-1, *[1] * (x.dim() - 1))

    @abstractmethod
    def corrupt(self, x: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
        """Noisy tokens of the shape of ``x``."""

    @abstractmethod
    def logits(self, tokens: Tensor, symbols: int) -> Tensor:
        """log p(token | symbol), (n, entries, symbols)."""

    def chosen(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draw which entries are replaced: bool, of the shape of ``x``."""
        return torch.rand(x.shape, generator=generator, device=x.device) < self.level_like(x)


@dataclass(frozen=True)
class UniformNoise(Corruption):
    """An entry becomes a uniform symbol (which may be the one it was) with probability ``level``."""

    def corrupt(self, x: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
        noise = torch.randint(symbols, x.shape, generator=generator, device=x.device)
        return torch.where(self.chosen(x, generator), noise, x)

    def logits(self, tokens: Tensor, symbols: int) -> Tensor:
        check_tokens(tokens, 0, symbols)
        same = functional.one_hot(tokens.flatten(1).long(), symbols).double()
        level = self.level_like(same)
        return ((1 - level) * same + level / symbols).log().clamp(min=LOG_ZERO)


@dataclass(frozen=True)
class Masking(Corruption):
    """An entry becomes MASK with probability ``level``; the other entries do not change."""

    def corrupt(self, x: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
        return torch.where(self.chosen(x, generator), MASK, x.long())

    def logits(self, tokens: Tensor, symbols: int) -> Tensor:
        check_tokens(tokens, MASK, symbols)
        flat = tokens.flatten(1).long()
        same = functional.one_hot(flat.clamp(min=0), symbols).bool()
        return torch.where(same | (flat == MASK)[..., None], 0.0, LOG_ZERO).double()


def token_posterior(rule: Rule, tokens: Tensor, corruption: Corruption) -> Tensor:
    """Posterior P(x_i = a | tokens) for x uniform over the samples of the rule: (n, entries, symbols), float64."""
    return rule_posterior(rule)(corruption.logits(rule.as_samples(tokens), rule.symbols))


def token_layer_posteriors(rule: RandomHierarchy, tokens: Tensor, corruption: Corruption) -> list[Tensor]:
    """Posterior of every node of the grammar's tree: levels 0 (leaves) … depth (root), (n, nodes, vocabulary) each."""
    return layer_posteriors(rule, corruption.logits(rule.as_samples(tokens), rule.symbols))


def restoring_network(
    posterior: Posterior, corruption: type[Corruption], symbols: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """Wrap an exact posterior so that it can replace a network that restores tokens (d3pm, masked).

    It maps tokens (n, length), MASK where nothing is known, and their noise (n,) or (1,) to log P(x_i = a | tokens).
    """

    def network(tokens: Tensor, noise: Tensor) -> Tensor:
        # A sampler that reveals two tokens at once may produce a string that no valid string explains. With a
        # probability of e^−60 for each wrong token the posterior is still defined; for other strings nothing changes.
        known = corruption(noise.expand(len(tokens))).logits(tokens, symbols).clamp(min=-60.0)
        return posterior(known).clamp(min=torch.finfo(torch.float64).tiny).log()

    return network


def cross_entropy(posterior: Tensor, x: Tensor) -> Tensor:
    """−log P(x_i | tokens) in nats, (n, entries)."""
    return -posterior.gather(2, x.flatten(1)[..., None].long()).squeeze(2).log()


def check_tokens(tokens: Tensor, lowest: int, symbols: int) -> None:
    """Raise UserError if a token lies outside ``lowest`` … symbols−1."""
    outside = tokens[(tokens < lowest) | (tokens >= symbols)]
    if len(outside):
        raise UserError(f"tokens: {int(outside[0])} is not allowed; use {lowest} to {symbols - 1}")
