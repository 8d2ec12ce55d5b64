"""Exact denoisers E[x | y] under Gaussian noise y = x + σn, in the ±1 encoding.

Each is a callable D(y, sigma) with y float (n, *shape) and sigma a number or (n,). They are what a perfect model of the
cube, of the rule, or of the training set would output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.rules.base import Rule
from twoclocks.rules.parity import Parity

Sigma: TypeAlias = "Tensor | float"
Denoiser: TypeAlias = Callable[[Tensor, Sigma], Tensor]


def cube_denoiser() -> Denoiser:
    """Uniform on {−1, +1}^D: every entry alone, E[x_i | y] = tanh(y_i/σ²)."""

    def denoise(y: Tensor, sigma: Sigma) -> Tensor:
        return torch.tanh(y / broadcast(sigma, y) ** 2)

    return denoise


def rule_denoiser(rule: Rule) -> Denoiser:
    """Uniform on the valid set of a rule."""
    if isinstance(rule, Parity):
        return parity_denoiser(rule)
    raise UserError(f"rule: {type(rule).__name__} has no exact denoiser; parity has")


def parity_denoiser(rule: Parity) -> Denoiser:
    """Uniform on even-parity groups: E[x_i | y] = (t_i + s·Π_{j≠i} t_j) / (1 + s·Π_j t_j), t = tanh(y/σ²).

    s is the sign of Π_j x_j over a valid group: (−1)^G, since an even number of entries is +1. The ratio equals
    tanh(u_i + s·atanh Π_{j≠i} t_j) with u = y/σ², which stays exact where every t rounds to ±1.
    """
    sign = -1.0 if rule.group % 2 else 1.0

    def denoise(y: Tensor, sigma: Sigma) -> Tensor:
        field = (y / broadcast(sigma, y) ** 2).reshape(len(y), rule.groups, rule.group)
        return torch.tanh(field + sign * product_of_others(field)).reshape(y.shape)

    return denoise


def product_of_others(field: Tensor) -> Tensor:
    """atanh Π_{j≠i} tanh(field_j) for every i of the last axis, by products from both sides."""
    columns = field.unbind(dim=-1)
    before = [torch.full_like(columns[0], torch.inf)]  # tanh(inf) = 1: the empty product
    after = [before[0]]
    for forward, backward in zip(columns[:-1], columns[:0:-1], strict=True):
        before.append(atanh_product(before[-1], forward))
        after.append(atanh_product(after[-1], backward))
    return torch.stack([atanh_product(a, b) for a, b in zip(before, after[::-1], strict=True)], dim=-1)


def atanh_product(a: Tensor, b: Tensor) -> Tensor:
    """atanh(tanh(a)·tanh(b)) without forming the product, exact for any size of a and b."""
    size = torch.minimum(a.abs(), b.abs())
    both_infinite = torch.isinf(a) & torch.isinf(b)  # inf − inf has no value; their product is 1
    apart = torch.where(both_infinite, torch.inf, (a - b).abs())
    together = torch.where(both_infinite, torch.inf, (a + b).abs())
    correction = torch.log1p(torch.exp(-2 * together)) - torch.log1p(torch.exp(-2 * apart))
    return a.sign() * b.sign() * size + correction / 2


def empirical_denoiser(train: Tensor, chunk: int = 4096) -> Denoiser:
    """Uniform on the rows of a binary training set (N, *shape): the memorizing optimum, in pieces of ``chunk`` rows."""
    signs = 2 * train.flatten(1).long() - 1

    def denoise(y: Tensor, sigma: Sigma) -> Tensor:
        flat = (y / broadcast(sigma, y) ** 2).reshape(len(y), -1)
        total: Tensor | None = None
        mean = torch.zeros_like(flat)
        for rows in signs.to(flat).split(chunk):
            logits = flat @ rows.T  # ‖x‖² is the same for all rows, so only the product matters
            step = logits.logsumexp(dim=1)
            piece = (logits - step[:, None]).exp() @ rows
            new = step if total is None else torch.logaddexp(total, step)
            keep = torch.zeros_like(new) if total is None else (total - new).exp()
            mean = keep[:, None] * mean + (step - new).exp()[:, None] * piece
            total = new
        return mean.reshape(y.shape)

    return denoise


def broadcast(sigma: Sigma, y: Tensor) -> Tensor:
    sigma = torch.as_tensor(sigma, dtype=y.dtype, device=y.device)
    return sigma.reshape(-1, *[1] * (y.dim() - 1)) if sigma.dim() else sigma
