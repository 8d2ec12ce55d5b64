"""Noise schedules of discrete diffusion: the probability α(u) that a token is not yet replaced at time u in [0, 1].

α(0) = 1 and α(1) = 0 exactly: at time 1 no token is left, so the reverse process starts where the corruption ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

# ∫β of DDPM's schedule, whose β grows from 1e-4 to 0.02 over 1,000 levels: ln α(u) = −(0.1 u + 9.95 u²).
FIRST, SECOND = 0.1, 9.95


class Schedule(NamedTuple):
    """A noise schedule: α(u), and −α'(u), the rate at which tokens are replaced."""

    alpha: Callable[[Tensor], Tensor]
    rate: Callable[[Tensor], Tensor]

    def levels(self, count: int) -> Tensor:
        """α at the times 0, 1/count, …, 1 (count + 1,), float64."""
        return self.alpha(torch.linspace(0, 1, count + 1, dtype=torch.float64))


def linear_beta_alpha(u: Tensor) -> Tensor:
    """DDPM's schedule, shifted and scaled so that α(1) = 0; this changes α by less than 5e-5."""
    last = math.exp(-FIRST - SECOND)
    return (torch.exp(-FIRST * u - SECOND * u.square()) - last).clamp(min=0) / (1 - last)


def linear_beta_rate(u: Tensor) -> Tensor:
    """−α'(u) of ``linear_beta_alpha``."""
    last = math.exp(-FIRST - SECOND)
    return (FIRST + 2 * SECOND * u) * torch.exp(-FIRST * u - SECOND * u.square()) / (1 - last)


SCHEDULES: dict[str, Schedule] = {
    # The same number of tokens at every level: β_t = 1/(T − t + 1).
    "linear": Schedule(lambda u: 1 - u, torch.ones_like),
    # MD4's: α = 1 − sin(π/2 u), which replaces few tokens per unit of time near u = 1.
    "cosine": Schedule(
        lambda u: 1 - torch.sin(math.pi / 2 * u),
        lambda u: math.pi / 2 * torch.cos(math.pi / 2 * u),
    ),
    "linear_beta": Schedule(linear_beta_alpha, linear_beta_rate),
}


@cache
def alpha_levels(name: str, count: int) -> Tensor:
    """α at the times 0, 1/count, …, 1 of a schedule, by name: (count + 1,), float64."""
    return SCHEDULES[name].levels(count)
