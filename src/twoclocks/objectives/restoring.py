"""Code shared by objectives whose network restores tokens: times for the loss, one step of ancestral sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from twoclocks.objectives.randomness import sample_categorical, uniforms
from twoclocks.objectives.transitions import Transitions


@dataclass
class Noisy:
    """The state of the reverse process: noisy tokens, and the seeds of their random numbers."""

    tokens: Tensor  # (n, length)
    seeds: Tensor  # (n, length)


def stratified_times(n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Draw n times in [0, 1), each uniform, with equal distances: this reduces the variance of means (as in MD4)."""
    start = torch.rand(1, generator=generator, device=device)
    return (start + torch.arange(n, device=device) / n) % 1


def ancestral_step(
    message: Callable[[Tensor, Tensor], Tensor],
    transitions: Transitions,
    state: Noisy,
    count: int,
    now: float,
    pair: Tensor,
) -> Noisy:
    """Sample x_s from p(x_s | x_t), with α_t = ``now`` and the constants ``pair`` of the two levels.

    ``message`` maps tokens and α (1, 1) to the messages of ``transitions``; ``count`` numbers the step, so that every
    step uses other random numbers.
    """
    device = state.seeds.device
    alpha = torch.full((1, 1), now, dtype=torch.float64, device=device)
    numbers = torch.stack([torch.full((1,), float(number), device=device) for number in pair.flatten()], dim=1)
    messages = message(state.tokens, alpha)
    outcomes = transitions.reverse_posterior(state.tokens, messages, numbers)
    # Where there is one more outcome than symbols, the first is the mask, −1.
    chosen = sample_categorical(outcomes, uniforms(state.seeds, count))
    return Noisy(chosen - (outcomes.shape[-1] - messages.shape[-1]), state.seeds)
