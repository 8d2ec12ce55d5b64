"""Masked diffusion in continuous time (MD4, Shi et al. 2024): a weighted cross-entropy of masked tokens.

−log p(x) ≤ ∫₀¹ −α'(u)/(1 − α(u)) E[Σ over masked tokens of −log p(x_i | x_u)] du, the limit of D3PM's absorbing bound
for infinitely many levels. The loss of one string is the integrand at a uniform u, averaged over its tokens, in nats
per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from twoclocks.core.config import setting
from twoclocks.core.constants import MASK
from twoclocks.objectives.base import OBJECTIVES, Network, Objective, Task
from twoclocks.objectives.randomness import draw_seeds
from twoclocks.objectives.restoring import Noisy, ancestral_step, stratified_times
from twoclocks.objectives.schedules import SCHEDULES, Schedule, alpha_levels
from twoclocks.objectives.transitions import Absorbing, masked_nll

EARLIEST = 1e-5  # smallest time; at smaller ones the integrand is a ratio of rounding errors


@OBJECTIVES.register("masked")
@dataclass(frozen=True, kw_only=True)
class Masked(Objective):
    """Masked diffusion (MD4): continuous time, weighted cross-entropy, ancestral sampling."""

    kind: ClassVar[str] = "tokens"
    task: ClassVar[Task] = "restore tokens"
    recordable: ClassVar[bool] = True

    schedule: Literal["linear", "cosine", "linear_beta"] = setting(
        "linear", "how α, the probability that a token is not masked, falls"
    )
    sampler_levels: int = setting(256, "steps of the ancestral sampler", at_least=1, at_most=10**6)

    @property
    def chosen_schedule(self) -> Schedule:
        return SCHEDULES[self.schedule]

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw times (n,), stratified over the rows, and one uniform number per token."""
        times = EARLIEST + (1 - EARLIEST) * stratified_times(len(clean), generator, clean.device)
        return times, torch.rand(clean.shape, generator=generator, device=clean.device)

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        tokens, now = self.corrupt(clean, *drawn)
        weight = self.chosen_schedule.rate(drawn[0]) / (1 - now)
        return weight * masked_nll(clean, tokens, self.message(network, tokens, now[:, None])).mean(dim=1)

    def predictions(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """p(x_0 | x_u) of every token (n, length, symbols)."""
        tokens, now = self.corrupt(clean, *drawn)
        return Absorbing().clean_posterior(tokens, self.message(network, tokens, now[:, None]), now[:, None])

    def corrupt(self, clean: Tensor, times: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Mask tokens at given times (n,); return them and their alpha (n,)."""
        now = self.chosen_schedule.alpha(times)
        return torch.where(chosen < now[:, None], clean, MASK), now

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return draw_seeds(n, shape, generator)

    @property
    def levels(self) -> int:
        return self.sampler_levels

    def begin(self, network: Network, noise: Tensor) -> Noisy:
        return Noisy(torch.full_like(noise, MASK), noise)

    def reverse_step(self, network: Network, state: Noisy, level: int) -> Noisy:
        alpha = alpha_levels(self.schedule, self.sampler_levels)
        now, before = (alpha[None, self.sampler_levels - step] for step in (level, level + 1))
        pair = Absorbing().pair(before, now, symbols=0)
        return ancestral_step(partial(self.message, network), Absorbing(), state, level + 1, float(now), pair)

    def prompted(self, state: Noisy, prompts: Tensor) -> Noisy:
        """Given tokens are never masked, and what is not masked stays: this is exact."""
        return Noisy(torch.cat([prompts, state.tokens[:, prompts.shape[1] :]], dim=1), state.seeds)

    def message(self, network: Network, tokens: Tensor, alpha: Tensor) -> Tensor:
        """Logits of the clean tokens (n, length, symbols), at alpha (n, 1) or (1, 1)."""
        return network(tokens, (1 - alpha[:, 0]).float().expand(len(tokens))).float()

    def finish(self, state: Noisy) -> Tensor:
        return state.tokens
