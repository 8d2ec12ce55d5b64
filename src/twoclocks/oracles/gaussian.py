"""Exact denoisers E[x | y] under Gaussian noise y = x + σn: of the cube, of the rule, of the training set.

They are what a perfect model of each would output, in any image encoding. All arithmetic is float64, whatever y is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.data.encodings import Arrays, ImageEncoding, Space, default_encoding
from twoclocks.oracles.posterior import Posterior, cube_posterior, list_posterior, rule_posterior
from twoclocks.rules.base import Rule

ROWS = 1024  # noisy rows whose posterior is computed at once

Sigma: TypeAlias = "Tensor | float"


@dataclass(frozen=True)
class Denoiser:
    """D(y, sigma), with y float (n, *shape) and sigma a number or (n,).

    The shape is the rule's (or, in one-hot, the symbols first), or the network's image with its channels.
    """

    marginals: Posterior
    encoding: ImageEncoding
    space: Arrays | None  # None: bits of any shape

    def posterior(self, y: Tensor, sigma: Sigma) -> Tensor:
        """P(x_i = a | y), (n, entries, symbols), float64."""
        space = self.space_of(y)
        level = torch.as_tensor(sigma, dtype=torch.float64, device=y.device).reshape(-1, 1, 1)
        if not bool((level > 0).all()):
            raise UserError(f"sigma: {sigma} is not allowed; use positive numbers")
        logits = self.encoding.scores(space, y.double()) / level**2
        return torch.cat([self.marginals(piece) for piece in logits.split(ROWS)])

    def __call__(self, y: Tensor, sigma: Sigma) -> Tensor:
        """E[x | y], in the shape and type of y."""
        codes = self.codes(y)
        mean = self.posterior(y, sigma) @ codes  # (n, entries, channels)
        return mean.transpose(1, 2).reshape(y.shape).to(y.dtype)

    def variance(self, y: Tensor, sigma: Sigma) -> Tensor:
        """E‖x − E[x | y]‖² given y, averaged over entries and channels (n,): the loss that is left, seen from y."""
        codes = self.codes(y)
        posterior = self.posterior(y, sigma)
        second = posterior @ codes.square().sum(dim=1)  # (n, entries)
        spread = second - (posterior @ codes).square().sum(dim=2)
        return spread.clamp(min=0).mean(dim=1) / codes.shape[1]

    def codes(self, y: Tensor) -> Tensor:
        return self.encoding.codes(self.space_of(y).symbols).to(y.device)

    def space_of(self, y: Tensor) -> Arrays:
        if self.space is None:
            return Space(tuple(y.shape[1:]))
        channels = self.encoding.codes(self.space.symbols).shape[1]
        expected = torch.Size(self.space.shape).numel() * channels
        if y.dim() < 2 or y[:1].numel() != expected * min(1, len(y)):
            shapes = f"(n, {', '.join(map(str, self.encoding.shape(self.space)))})"
            raise UserError(f"y: shape {tuple(y.shape)} is not allowed; use {shapes}")
        return self.space


def cube_denoiser(rule: Arrays | None = None, encoding: ImageEncoding | None = None) -> Denoiser:
    """Uniform over all arrays: every entry alone; for bits E[x_i | y] = tanh(y_i/σ²). Without a rule: bits."""
    space = rule if rule is not None else Space(())
    return Denoiser(cube_posterior, image_encoding(encoding, space), rule)


def rule_denoiser(rule: Rule, encoding: ImageEncoding | None = None) -> Denoiser:
    """Uniform over the valid set of a rule.

    >>> from twoclocks import rules
    >>> rule_denoiser(rules.create("parity", length=2, group=2))(torch.tensor([[1.0, 0.0]]), 0.5)
    tensor([[0.9993, 0.9993]])
    """
    return Denoiser(rule_posterior(rule), image_encoding(encoding, rule), rule)


def empirical_denoiser(
    train: Tensor, rule: Arrays | None = None, encoding: ImageEncoding | None = None, chunk: int = 4096
) -> Denoiser:
    """Uniform over the rows of a training set (N, *shape): the memorizing optimum. Without a rule: bits."""
    train = torch.as_tensor(train)
    space = rule if rule is not None else Space(tuple(train.shape[1:]))
    if len(train) == 0 or train.dim() < 2:
        raise UserError(f"train: shape {tuple(train.shape)} is not allowed; give at least one row, as (n, *shape)")
    if int(train.min()) < 0 or int(train.max()) >= space.symbols:
        raise UserError(
            f"train: symbols {int(train.min())}..{int(train.max())} do not fit 0..{space.symbols - 1}; give rule="
        )
    return Denoiser(list_posterior(train, space.symbols, chunk), image_encoding(encoding, space), space)


def image_encoding(encoding: ImageEncoding | None, space: Arrays) -> ImageEncoding:
    """The encoding that was asked for, or the usual one: ±1 for bits, evenly spaced symbols otherwise."""
    chosen = encoding if encoding is not None else default_encoding("image", space)
    if not isinstance(chosen, ImageEncoding):
        raise UserError(f"encoding: {chosen!r} is not allowed; Gaussian noise needs sign, scalar or one_hot")
    chosen.check_rule(space)
    return chosen
