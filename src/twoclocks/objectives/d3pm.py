"""Discrete denoising diffusion (D3PM, Austin et al. 2021): tokens are replaced level by level, a network restores them.

The loss of one string is T·KL_t at a level t drawn uniformly from T, averaged over its tokens: its expectation is the
variational bound of −log p(x) in nats a token, all terms of it exact. (The prior's term is zero: see ``schedules``.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.objectives.base import OBJECTIVES, Network, Objective, Task
from twoclocks.objectives.randomness import seeds, uniforms
from twoclocks.objectives.restoring import Noisy, one_step_back, spread
from twoclocks.objectives.schedules import alpha_levels
from twoclocks.objectives.transitions import Absorbing, Transitions, Uniform

TRANSITIONS: dict[str, Transitions] = {"uniform": Uniform(), "absorbing": Absorbing()}


class Table(NamedTuple):
    """What is to be known of every level 0 … T."""

    alpha: Tensor  # (T + 1,), float64
    pairs: Tensor  # (T + 1, numbers): of each level and the one before it; level 0 has none

    def on(self, device: torch.device) -> Table:
        """The table on another device, made there once: a captured step cannot bring it along."""
        return self if device.type == "cpu" else moved(self.alpha, self.pairs, device)


@cache
def moved(alpha: Tensor, pairs: Tensor, device: torch.device) -> Table:
    return Table(alpha.to(device), pairs.to(device))


@cache
def table_of(corruption: str, schedule: str, levels: int, symbols: int) -> Table:
    alpha = alpha_levels(schedule, levels)
    pairs = TRANSITIONS[corruption].pair(alpha[:-1], alpha[1:], symbols)
    return Table(alpha, torch.cat([torch.full_like(pairs[:1], torch.nan), pairs]))


@OBJECTIVES.register("d3pm")
@dataclass(frozen=True, kw_only=True)
class D3PM(Objective):
    """Discrete diffusion with uniform or absorbing noise, its variational bound and its reverse process."""

    kind: ClassVar[str] = "tokens"
    task: ClassVar[Task] = "restore tokens"

    corruption: Literal["uniform", "absorbing"] = setting(
        "uniform", "what a forgotten token becomes: any symbol, a mask"
    )
    schedule: Literal["linear", "cosine", "linear_beta"] = setting(
        "linear", "how the probability to survive falls: linearly, as MD4's cosine, or by DDPM's linear β"
    )
    noise_levels: int = setting(1000, "levels T of the corruption", at_least=1, at_most=10**4)
    sampler_levels: int | None = setting(None, "levels that the sampler visits, evenly chosen; all T", at_least=1)
    evidence: bool = setting(
        True,
        "uniform noise: add the log-likelihood of each noisy token to the network's logits, which then say only what "
        "the others tell",
    )
    auxiliary: float = setting(0.0, "weight of the cross-entropy of clean tokens beside the bound", at_least=0)
    symbols: int | None = setting(None, "size of the vocabulary; the rule's", at_least=2)

    def check(self) -> None:
        if self.sampler_levels is not None and self.sampler_levels > self.noise_levels:
            raise SettingError("sampler_levels", self.sampler_levels, f"use at most noise_levels = {self.noise_levels}")

    def fitted(self, symbols: int) -> Self:
        if self.symbols not in (None, symbols):
            fix = f"the rule has {symbols} symbols; leave it out, or use that"
            raise SettingError("objective.symbols", self.symbols, fix)
        return replace(self, symbols=symbols)

    @property
    def transitions(self) -> Transitions:
        return TRANSITIONS[self.corruption]

    @property
    def vocabulary(self) -> int:
        if self.symbols is None:
            raise SettingError("objective.symbols", None, "say how many symbols there are, or use fitted(symbols)")
        return self.symbols

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Levels 1 … T (n,), spread evenly over the rows, and two uniform numbers a token."""
        times = spread(len(clean), generator, clean.device)
        levels = (times * self.noise_levels).long().clamp(max=self.noise_levels - 1) + 1
        chosen, other = (torch.rand(clean.shape, generator=generator, device=clean.device) for _ in range(2))
        return levels, chosen, other

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        tokens, alpha = self.corrupt(clean, *drawn)
        message = self.message(network, tokens, alpha)
        pairs = self.table.on(clean.device).pairs[drawn[0]]
        loss = self.noise_levels * self.transitions.divergence(clean, tokens, message, pairs).mean(dim=1)
        if self.auxiliary:
            belief = message + self.transitions.likelihood(tokens, alpha, self.vocabulary)
            nll = functional.cross_entropy(belief.transpose(1, 2), clean, reduction="none")
            loss = loss + self.auxiliary * nll.mean(dim=1)
        return loss

    def predictions(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """p(x_0 | x_t) of every token (n, length, symbols)."""
        tokens, alpha = self.corrupt(clean, *drawn)
        return self.transitions.belief(tokens, self.message(network, tokens, alpha), alpha)

    def message(self, network: Network, tokens: Tensor, alpha: Tensor) -> Tensor:
        """What the other tokens say about each one (n, length, symbols), at survivals (n, 1) or (1, 1)."""
        said = network(tokens, (1 - alpha[:, 0]).float().expand(len(tokens))).float()
        return said if self.evidence else said - self.transitions.likelihood(tokens, alpha, self.vocabulary)

    def network_of(self, restorer: Network) -> Network:
        """The network by which p(x_0 | x_t) is what ``restorer`` says: lets an exact oracle take a network's place."""

        def network(tokens: Tensor, noise: Tensor) -> Tensor:
            logits = restorer(tokens, noise).float()
            if not self.evidence:
                return logits
            return logits - self.transitions.likelihood(tokens, 1 - noise.double()[:, None], self.vocabulary)

        return network

    def corrupt(self, clean: Tensor, levels: Tensor, chosen: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Noisy tokens at some levels (n,), and the survivals (n, 1) there."""
        alpha = self.table.on(clean.device).alpha[levels, None]
        return self.transitions.corrupted(clean, alpha, chosen, other, self.vocabulary), alpha

    @property
    def table(self) -> Table:
        return table_of(self.corruption, self.schedule, self.noise_levels, self.vocabulary)

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return seeds(n, shape, generator)

    @property
    def levels(self) -> int:
        return self.sampler_levels or self.noise_levels

    def visited(self, step: int) -> int:
        """The noise level before a step of the sampler."""
        return round((self.levels - step) * self.noise_levels / self.levels)

    def begin(self, network: Network, noise: Tensor) -> Noisy:
        return Noisy(self.transitions.prior(uniforms(noise, 0), self.vocabulary), noise)

    def reverse_step(self, network: Network, state: Noisy, level: int) -> Noisy:
        alpha = self.table.alpha
        now, before = (alpha[None, self.visited(step)] for step in (level, level + 1))
        pair = self.transitions.pair(before, now, self.vocabulary)
        return one_step_back(partial(self.message, network), self.transitions, state, level + 1, float(now), pair)

    def finish(self, state: Noisy) -> Tensor:
        return state.tokens
