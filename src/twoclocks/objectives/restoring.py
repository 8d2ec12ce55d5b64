"""What objectives share whose network restores tokens: times for the loss, and one step of the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from twoclocks.objectives.randomness import pick, uniforms
from twoclocks.objectives.transitions import Transitions


@dataclass
class Noisy:
    """Tokens on their backward pass, and the words that their randomness comes from."""

    tokens: Tensor  # (n, length)
    words: Tensor  # (n, length)


def spread(n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """n numbers in [0, 1), each uniform, together evenly spread: means over rows scatter less (as in MD4)."""
    start = torch.rand(1, generator=generator, device=device)
    return (start + torch.arange(n, device=device) / n) % 1


def one_step_back(
    message: Callable[[Tensor, Tensor], Tensor],
    transitions: Transitions,
    state: Noisy,
    count: int,
    now: float,
    pair: Tensor,
) -> Noisy:
    """From alpha ``now`` to the one before, a ``pair`` of levels, by the ``count``-th uniform number of each token.

    ``message`` maps tokens and survivals (1, 1) to what the other tokens say about each one.
    """
    device = state.words.device
    alpha = torch.full((1, 1), now, dtype=torch.float64, device=device)
    numbers = torch.stack([torch.full((1,), float(number), device=device) for number in pair.flatten()], dim=1)
    said = message(state.tokens, alpha)
    outcomes = transitions.reverse_posterior(state.tokens, said, numbers)
    # Where there is one more outcome than symbols, the first is the mask, −1.
    found = pick(outcomes, uniforms(state.words, count)) - (outcomes.shape[-1] - said.shape[-1])
    return Noisy(found, state.words)
