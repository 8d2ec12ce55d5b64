"""Finite automata: a machine that reads a piece entry by entry and accepts it or not, summed over all its readings.

Parity remembers one bit, a count remembers how many ones came, a permutation remembers which symbols came. So one
forward recursion serves the oracles of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


NEVER = -1e30  # the logarithm of zero, finite: infinities have no gradient, and this one loses every comparison


def read_all(logits: Tensor, states: int, step: Callable[[int, int], int | None]) -> Tensor:
    """log of the summed weight of all words that end in each state: (…, states), from state 0.

    ``logits`` (…, length, symbols) holds the log-weight of each symbol at each place; ``step(state, symbol)`` is the
    next state, or None where the machine refuses the symbol.
    """
    arrows: list[list[tuple[int, int]]] = [[] for _ in range(states)]  # per target: (source, symbol)
    for source in range(states):
        for symbol in range(logits.shape[-1]):
            target = step(source, symbol)
            if target is not None:
                arrows[target].append((source, symbol))
    widest = max(len(found) for found in arrows)
    padded = [found + [(states, 0)] * (widest - len(found)) for found in arrows]  # state `states` is unreachable
    table = torch.tensor(padded, device=logits.device)  # (states, widest, 2)
    sources, symbols = table[..., 0], table[..., 1]
    nowhere = logits.new_full((*logits.shape[:-2], 1), NEVER)
    weight = torch.cat([torch.zeros_like(nowhere), nowhere.expand(*nowhere.shape[:-1], states - 1)], dim=-1)
    for place in range(logits.shape[-2]):
        before = torch.cat([weight, nowhere], dim=-1)[..., sources]  # (…, states, widest)
        weight = (before + logits[..., place, :][..., symbols]).logsumexp(dim=-1)
    return weight
