"""The exact denoiser of a training set: D(y; σ) = Σ w_i x_i with w = softmax(−‖y − x_i‖²/2σ²), full memorization.

It needs no list of symbols, so it works for real images too: rows are encoded tile by tile, as the network sees them,
and sums over tiles are kept relative to the largest weight so far. Memory is bounded for any number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.data.encodings import Arrays, Encoding, Space
from twoclocks.oracles.gaussian import Denoiser, Sigma, as_floats, broadcast_sigma, check_finite, gaussian_encoding

NUMBERS = 1 << 22  # of one tile: 32 MiB in float64
ROWS = 1024  # noisy rows at once


@dataclass(frozen=True)
class EmpiricalDenoiser(Denoiser):
    """The exact denoiser of training rows (N, *shape), on the device of y."""

    rows: Tensor
    chunk: int | None = None  # training rows per tile; None: as many as NUMBERS allow

    def __call__(self, y: Tensor, sigma: Sigma) -> Tensor:
        """Posterior mean E[x | y], in the shape and dtype of y."""
        y = as_floats(y)
        return self.moments(y, sigma)[0].reshape(y.shape).to(y.dtype)

    def variance(self, y: Tensor, sigma: Sigma) -> Tensor:
        """Posterior variance E[‖x − E[x | y]‖² | y], averaged over entries and channels (n,)."""
        mean, square = self.moments(as_floats(y), sigma)
        return (square - mean.square().sum(dim=1)).clamp(min=0) / mean.shape[1]

    def moments(self, y: Tensor, sigma: Sigma) -> tuple[Tensor, Tensor]:
        """E[x | y] (n, entries) and E[‖x‖² | y] (n,), float64."""
        check_finite(y)
        space = self.space_of(y)
        variance = broadcast_sigma(sigma, y).reshape(-1, 1).square().expand(len(y), 1)
        parts = zip(y.flatten(1).split(ROWS), variance.split(ROWS), strict=True)
        means, squares = zip(*(self.of_part(space, part.double(), level) for part, level in parts), strict=True)
        return torch.cat(means), torch.cat(squares)

    def of_part(self, space: Arrays, y: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """``moments`` of a few rows y (n, entries), σ² (n, 1): weights are relative to the largest one so far."""
        largest = y.new_full((len(y), 1), -torch.inf)
        total, mean, square = y.new_zeros(len(y), 1), torch.zeros_like(y), y.new_zeros(len(y), 1)
        chunk = self.chunk or max(1, NUMBERS // max(y.shape))
        for rows in self.rows.split(chunk):
            points = self.encoding.encode(space, rows.to(y.device)).flatten(1).double()
            norms = points.square().sum(dim=1, keepdim=True)
            logits = (y @ points.T - norms.T / 2) / variance  # ‖y‖² is the same for all points
            before, largest = largest, torch.maximum(largest, logits.amax(dim=1, keepdim=True))
            weights, kept = (logits - largest).exp_(), (before - largest).exp()
            total = kept * total + weights.sum(dim=1, keepdim=True)
            mean = kept * mean + weights @ points
            square = kept * square + weights @ norms
        return mean / total, (square / total).squeeze(1)


def empirical_denoiser(
    train: Tensor, rule: Arrays | None = None, encoding: Encoding | str | None = None, chunk: int | None = None
) -> EmpiricalDenoiser:
    """Exact denoiser for the rows of a training set (N, *shape): full memorization. Without a rule: bits.

    >>> empirical_denoiser(torch.tensor([[0, 0], [1, 1]]))(torch.tensor([[1.0, 0.0]]), 0.5)
    tensor([[0.9993, 0.9993]])
    """
    train = torch.as_tensor(train)
    if train.is_floating_point() or train.dim() < 2 or len(train) == 0:
        given = f"{train.dtype} of shape {tuple(train.shape)}"
        raise UserError(f"train: {given} is not allowed; give integer symbols as (n, *shape), at least one row")
    space = rule if rule is not None else Space(tuple(train.shape[1:]))
    if tuple(train.shape[1:]) != space.shape:
        raise UserError(f"train: rows of shape {tuple(train.shape[1:])} are not the rule's; use {space.shape}")
    low, high = int(train.min()), int(train.max())
    if low < 0 or high >= space.symbols:
        fix = f"use 0 to {space.symbols - 1}" + ("" if rule is not None else ", or give rule= for more symbols")
        raise UserError(f"train: symbols from {low} to {high} are not allowed; {fix}")
    smallest = torch.uint8 if space.symbols <= 256 else torch.int16 if space.symbols < 1 << 15 else torch.int64
    return EmpiricalDenoiser(gaussian_encoding(encoding, space), space, train.to(smallest), chunk)
