"""Exact posteriors under noise that replaces symbols: by uniform ones, or by a mask (P2's D3PM and MD4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.errors import UserError
from twoclocks.oracles.posterior import layer_posteriors, rule_posterior
from twoclocks.rules.automaton import NEVER
from twoclocks.rules.base import Rule
from twoclocks.rules.rhm import RandomHierarchy

MASK = -1  # stands for "nothing is known here"


@dataclass(frozen=True)
class Corruption(ABC):
    """Replaces each entry independently with probability ``level``."""

    level: float

    def __post_init__(self) -> None:
        if not 0 <= self.level <= 1:
            raise UserError(f"level: {self.level} is not allowed; use a probability from 0 to 1")

    @abstractmethod
    def corrupt(self, x: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
        """Noisy tokens of the shape of ``x``."""

    @abstractmethod
    def logits(self, tokens: Tensor, symbols: int) -> Tensor:
        """log p(token | symbol), (n, entries, symbols)."""

    def chosen(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return torch.rand(x.shape, generator=generator, device=x.device) < self.level


@dataclass(frozen=True)
class UniformNoise(Corruption):
    """An entry becomes a uniform symbol (which may be the one it was) with probability ``level``."""

    def corrupt(self, x: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
        noise = torch.randint(symbols, x.shape, generator=generator, device=x.device)
        return torch.where(self.chosen(x, generator), noise, x)

    def logits(self, tokens: Tensor, symbols: int) -> Tensor:
        check_tokens(tokens, 0, symbols)
        same = functional.one_hot(tokens.flatten(1).long(), symbols).double()
        return ((1 - self.level) * same + self.level / symbols).log().clamp(min=NEVER)


@dataclass(frozen=True)
class Masking(Corruption):
    """An entry becomes MASK with probability ``level``; the others are as they were."""

    def corrupt(self, x: Tensor, symbols: int, generator: torch.Generator) -> Tensor:
        return torch.where(self.chosen(x, generator), MASK, x.long())

    def logits(self, tokens: Tensor, symbols: int) -> Tensor:
        check_tokens(tokens, MASK, symbols)
        flat = tokens.flatten(1).long()
        same = functional.one_hot(flat.clamp(min=0), symbols).bool()
        return torch.where(same | (flat == MASK)[..., None], 0.0, NEVER).double()


def token_posterior(rule: Rule, tokens: Tensor, corruption: Corruption) -> Tensor:
    """P(x_i = a | tokens) for x uniform over what the rule draws: (n, entries, symbols), float64."""
    return rule_posterior(rule)(corruption.logits(rule.as_samples(tokens), rule.symbols))


def token_layer_posteriors(rule: RandomHierarchy, tokens: Tensor, corruption: Corruption) -> list[Tensor]:
    """The same for every node of the grammar's tree: levels 0 (leaves) … depth (root), (n, nodes, vocabulary)."""
    return layer_posteriors(rule, corruption.logits(rule.as_samples(tokens), rule.symbols))


def cross_entropy(posterior: Tensor, x: Tensor) -> Tensor:
    """−log P(x_i | tokens) in nats, (n, entries)."""
    return -posterior.gather(2, x.flatten(1)[..., None].long()).squeeze(2).log()


def check_tokens(tokens: Tensor, lowest: int, symbols: int) -> None:
    outside = tokens[(tokens < lowest) | (tokens >= symbols)]
    if len(outside):
        raise UserError(f"tokens: {int(outside[0])} is not allowed; use {lowest} to {symbols - 1}")
