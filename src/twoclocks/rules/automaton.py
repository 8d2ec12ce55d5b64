"""The forward algorithm of a finite automaton: sums over all strings that end in each of its states.

A parity rule needs a state of one bit, a counting rule the number of ones so far, a permutation the set of symbols so
far. So one forward recursion serves the oracles of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


LOG_ZERO = -1e30  # stands for log 0; finite, since infinities have no gradient, and below every real log-weight


def log_state_weights(logits: Tensor, states: int, step: Callable[[int, int], int | None]) -> Tensor:
    """Log of the summed weight of all strings that lead from state 0 to each state: (…, states).

    ``logits`` (…, length, symbols) holds the log-weight of each symbol at each position; ``step(state, symbol)`` is
    the next state, or None where the automaton rejects the symbol.
    """
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(states)]  # per target: (source, symbol)
    for source in range(states):
        for symbol in range(logits.shape[-1]):
            target = step(source, symbol)
            if target is not None:
                incoming[target].append((source, symbol))
    widest = max(len(edges) for edges in incoming)
    padded = [edges + [(states, 0)] * (widest - len(edges)) for edges in incoming]  # state `states` is unreachable
    table = torch.tensor(padded, device=logits.device)  # (states, widest, 2)
    sources, symbols = table[..., 0], table[..., 1]
    unreachable = logits.new_full((*logits.shape[:-2], 1), LOG_ZERO)
    others = unreachable.expand(*unreachable.shape[:-1], states - 1)
    weight = torch.cat([torch.zeros_like(unreachable), others], dim=-1)
    for position in range(logits.shape[-2]):
        before = torch.cat([weight, unreachable], dim=-1)[..., sources]  # (…, states, widest)
        weight = (before + logits[..., position, :][..., symbols]).logsumexp(dim=-1)
    return weight
