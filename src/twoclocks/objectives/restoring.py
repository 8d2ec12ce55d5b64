"""What objectives share whose network restores tokens: times for the loss, and one step of the way back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclocks.objectives.base import Network
from twoclocks.objectives.randomness import pick, uniforms
from twoclocks.objectives.transitions import MASK, Transitions


@dataclass
class Noisy:
    """Tokens on their way back, and the words that their randomness comes from."""

    tokens: Tensor  # (n, length)
    words: Tensor  # (n, length)


def spread(n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """n numbers in [0, 1), each uniform, together evenly spread: means over rows scatter less (as in MD4)."""
    start = torch.rand(1, generator=generator, device=device)
    return (start + torch.arange(n, device=device) / n) % 1


def one_step_back(
    network: Network, transitions: Transitions, state: Noisy, count: int, now: float, before: float
) -> Noisy:
    """From survival ``now`` to ``before``, by the ``count``-th uniform number of every token."""
    survivals = (torch.full((1, 1), value, dtype=torch.float64, device=state.words.device) for value in (before, now))
    logits = network(state.tokens, torch.full((1,), 1 - now, device=state.words.device)).float()
    found = pick(transitions.step_back(state.tokens, logits, *survivals), uniforms(state.words, count))
    return Noisy(torch.where(found == logits.shape[-1], MASK, found), state.words)
