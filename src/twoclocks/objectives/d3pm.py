"""Discrete denoising diffusion (D3PM, Austin et al. 2021): tokens are replaced level by level, a network restores them.

The loss of one string is T·KL_t at a level t drawn uniformly from T, averaged over its tokens. Its expectation is the
variational bound of −log p(x) in nats per token, with all terms exact. (The prior's term is zero: see ``schedules``.)
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
from twoclocks.objectives.randomness import draw_seeds, uniforms
from twoclocks.objectives.restoring import Noisy, ancestral_step, stratified_times
from twoclocks.objectives.schedules import alpha_levels
from twoclocks.objectives.transitions import Absorbing, Transitions, Uniform

TRANSITIONS: dict[str, Transitions] = {"uniform": Uniform(), "absorbing": Absorbing()}


class Table(NamedTuple):
    """Constants of every noise level 0 … T."""

    alpha: Tensor  # (T + 1,), float64
    pairs: Tensor  # (T + 1, constants): of each level and the one before it; NaN at level 0

    def on(self, device: torch.device) -> Table:
        """The table on a device, copied there once: a step in a CUDA graph cannot copy it."""
        return self if device.type == "cpu" else table_on_device(self.alpha, self.pairs, device)


@cache
def table_on_device(alpha: Tensor, pairs: Tensor, device: torch.device) -> Table:
    """A cached copy of a table on a device."""
    return Table(alpha.to(device), pairs.to(device))


@cache
def level_table(corruption: str, schedule: str, levels: int, symbols: int) -> Table:
    """Compute the constants of all levels of a corruption and schedule."""
    alpha = alpha_levels(schedule, levels)
    pairs = TRANSITIONS[corruption].pair(alpha[:-1], alpha[1:], symbols)
    return Table(alpha, torch.cat([torch.full_like(pairs[:1], torch.nan), pairs]))


@OBJECTIVES.register("d3pm")
@dataclass(frozen=True, kw_only=True)
class D3PM(Objective):
    """Discrete diffusion (D3PM) with uniform or absorbing noise: variational bound and reverse process."""

    kind: ClassVar[str] = "tokens"
    task: ClassVar[Task] = "restore tokens"
    recordable: ClassVar[bool] = True

    corruption: Literal["uniform", "absorbing"] = setting(
        "uniform", "what a replaced token becomes: a uniform symbol, or a mask"
    )
    schedule: Literal["linear", "cosine", "linear_beta"] = setting(
        "linear", "how α, the probability that a token is not replaced, falls: linearly, MD4's cosine, DDPM's linear β"
    )
    noise_levels: int = setting(1000, "number T of noise levels", at_least=1, at_most=10**4)
    sampler_levels: int | None = setting(None, "noise levels of the sampler, evenly spaced; default: all T", at_least=1)
    evidence: bool = setting(
        True,
        "uniform noise: add the log-likelihood of each noisy token to the network's logits, which then need to contain "
        "only the information of the other tokens",
    )
    auxiliary: float = setting(0.0, "weight of the cross-entropy of clean tokens, added to the bound", at_least=0)
    symbols: int | None = setting(None, "size of the vocabulary; default: that of the rule", at_least=2)

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
            raise SettingError("objective.symbols", None, "give the number of symbols, or use fitted(symbols)")
        return self.symbols

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw levels 1 … T (n,), stratified over the rows, and two uniform numbers per token."""
        times = stratified_times(len(clean), generator, clean.device)
        levels = (times * self.noise_levels).long().clamp(max=self.noise_levels - 1) + 1
        chosen, other = (torch.rand(clean.shape, generator=generator, device=clean.device) for _ in range(2))
        return levels, chosen, other

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        tokens, alpha = self.corrupt(clean, *drawn)
        message = self.message(network, tokens, alpha)
        pairs = self.table.on(clean.device).pairs[drawn[0]]
        loss = self.noise_levels * self.transitions.divergence(clean, tokens, message, pairs).mean(dim=1)
        if self.auxiliary:
            logits = message + self.transitions.likelihood(tokens, alpha, self.vocabulary)
            nll = functional.cross_entropy(logits.transpose(1, 2), clean, reduction="none")
            loss = loss + self.auxiliary * nll.mean(dim=1)
        return loss

    def predictions(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """p(x_0 | x_t) of every token (n, length, symbols)."""
        tokens, alpha = self.corrupt(clean, *drawn)
        return self.transitions.clean_posterior(tokens, self.message(network, tokens, alpha), alpha)

    def message(self, network: Network, tokens: Tensor, alpha: Tensor) -> Tensor:
        """Messages of the other tokens about each one (n, length, symbols), at alpha (n, 1) or (1, 1)."""
        logits = network(tokens, (1 - alpha[:, 0]).float().expand(len(tokens))).float()
        return logits if self.evidence else logits - self.transitions.likelihood(tokens, alpha, self.vocabulary)

    def network_of(self, restorer: Network) -> Network:
        """The network whose p(x_0 | x_t) is that of ``restorer``; with it an exact oracle can replace a network."""

        def network(tokens: Tensor, noise: Tensor) -> Tensor:
            logits = restorer(tokens, noise).float()
            if not self.evidence:
                return logits
            return logits - self.transitions.likelihood(tokens, 1 - noise.double()[:, None], self.vocabulary)

        return network

    def corrupt(self, clean: Tensor, levels: Tensor, chosen: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """Draw noisy tokens at levels (n,); return them and their alpha (n, 1)."""
        alpha = self.table.on(clean.device).alpha[levels, None]
        return self.transitions.corrupt(clean, alpha, chosen, other, self.vocabulary), alpha

    @property
    def table(self) -> Table:
        return level_table(self.corruption, self.schedule, self.noise_levels, self.vocabulary)

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return draw_seeds(n, shape, generator)

    @property
    def levels(self) -> int:
        return self.sampler_levels or self.noise_levels

    def level_before(self, step: int) -> int:
        """The noise level before a step of the sampler."""
        return round((self.levels - step) * self.noise_levels / self.levels)

    def begin(self, network: Network, noise: Tensor) -> Noisy:
        return Noisy(self.transitions.prior(uniforms(noise, 0), self.vocabulary), noise)

    def reverse_step(self, network: Network, state: Noisy, level: int) -> Noisy:
        alpha = self.table.alpha
        now, before = (alpha[None, self.level_before(step)] for step in (level, level + 1))
        pair = self.transitions.pair(before, now, self.vocabulary)
        return ancestral_step(partial(self.message, network), self.transitions, state, level + 1, float(now), pair)

    def finish(self, state: Noisy) -> Tensor:
        return state.tokens
