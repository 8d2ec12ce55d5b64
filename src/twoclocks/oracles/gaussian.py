"""Exact denoisers E[x | y] under Gaussian noise y = x + σn: of the cube, of the rule, of the training set.

They are what a perfect model of each would output, in any image encoding. All arithmetic is float64, whatever y is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from twoclocks.core.errors import SettingError, UserError
from twoclocks.data.encodings import ENCODINGS, Arrays, Encoding, ImageEncoding, Space, default_encoding
from twoclocks.oracles.posterior import Posterior, cube_posterior, list_posterior, rule_posterior
from twoclocks.rules.base import Rule

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
        y = as_floats(y)
        check_finite(y)
        space = self.space_of(y)
        return self.marginals(self.encoding.scores(space, y.double()) / levels_of(sigma, y) ** 2)

    def __call__(self, y: Tensor, sigma: Sigma) -> Tensor:
        """E[x | y], in the shape and floating type of y."""
        y = as_floats(y)
        mean = self.posterior(y, sigma) @ self.codes(y)  # (n, entries, channels)
        return mean.transpose(1, 2).reshape(y.shape).to(y.dtype)

    def variance(self, y: Tensor, sigma: Sigma) -> Tensor:
        """E‖x − E[x | y]‖² given y, averaged over entries and channels (n,): the loss that is left, seen from y."""
        y = as_floats(y)
        codes, posterior = self.codes(y), self.posterior(y, sigma)
        second = posterior @ codes.square().sum(dim=1)  # (n, entries)
        spread = second - (posterior @ codes).square().sum(dim=2)
        return spread.clamp(min=0).mean(dim=1) / codes.shape[1]

    def codes(self, y: Tensor) -> Tensor:
        return self.encoding.codes(self.space_of(y).symbols).to(y.device)

    def space_of(self, y: Tensor) -> Arrays:
        if self.space is None:
            return Space(tuple(y.shape[1:]))
        channels = self.encoding.codes(self.space.symbols).shape[1]
        if math.prod(y.shape[1:]) != math.prod(self.space.shape) * channels or y.dim() < 2:
            bare = self.space.shape if channels == 1 else (channels, *self.space.shape)
            allowed = " or ".join(f"(n, *{shape})" for shape in (bare, self.encoding.shape(self.space)))
            raise UserError(f"y: shape {tuple(y.shape)} is not allowed; use {allowed}")
        return self.space


def as_floats(y: Tensor) -> Tensor:
    """Noisy data as a tensor of floats; whole numbers become floats."""
    y = torch.as_tensor(y)
    return y if y.is_floating_point() else y.to(torch.get_default_dtype())


def check_finite(y: Tensor) -> None:
    if not bool(torch.isfinite(y).all()):
        raise UserError("y: holds values that are not finite; an oracle has no answer to them")


def levels_of(sigma: Sigma, y: Tensor) -> Tensor:
    """σ as (1, 1, 1) or (n, 1, 1)."""
    level = torch.as_tensor(sigma, dtype=torch.float64, device=y.device)
    if level.numel() not in (1, len(y)) or level.dim() > 1 or not bool((level > 0).all()):
        raise UserError(f"sigma: {sigma} is not allowed; use a positive number, or one for each of the {len(y)} rows")
    return level.reshape(-1, 1, 1)


def cube_denoiser(rule: Arrays | None = None, encoding: Encoding | str | None = None) -> Denoiser:
    """Uniform over all arrays: every entry alone; for bits E[x_i | y] = tanh(y_i/σ²). Without a rule: bits."""
    space = rule if rule is not None else Space(())
    return Denoiser(cube_posterior, image_encoding(encoding, space), rule)


def rule_denoiser(rule: Rule, encoding: Encoding | str | None = None) -> Denoiser:
    """Uniform over the valid set of a rule, or over what its generator reaches (``latin_cyclic``).

    >>> from twoclocks import rules
    >>> rule_denoiser(rules.create("parity", length=2, group=2))(torch.tensor([[1.0, 0.0]]), 0.5)
    tensor([[0.9993, 0.9993]])
    """
    return Denoiser(rule_posterior(rule), image_encoding(encoding, rule), rule)


def empirical_denoiser(
    train: Tensor, rule: Arrays | None = None, encoding: Encoding | str | None = None, chunk: int = 4096
) -> Denoiser:
    """Uniform over the rows of a training set (N, *shape): the memorizing optimum. Without a rule: bits."""
    train = torch.as_tensor(train)
    if train.is_floating_point() or train.dim() < 2 or len(train) == 0:
        given = f"{train.dtype} of shape {tuple(train.shape)}"
        raise UserError(f"train: {given} is not allowed; give whole-number symbols, at least one row, as (n, *shape)")
    space = rule if rule is not None else Space(tuple(train.shape[1:]))
    if tuple(train.shape[1:]) != space.shape:
        raise UserError(f"train: rows of shape {tuple(train.shape[1:])} are not the rule's; use {space.shape}")
    low, high = int(train.min()), int(train.max())
    if low < 0 or high >= space.symbols:
        fix = f"use 0 to {space.symbols - 1}" + ("" if rule is not None else ", or give rule= for more symbols")
        raise UserError(f"train: symbols from {low} to {high} are not allowed; {fix}")
    return Denoiser(list_posterior(train, space.symbols, chunk), image_encoding(encoding, space), space)


def image_encoding(encoding: Encoding | str | None, space: Arrays) -> ImageEncoding:
    """The encoding that was asked for, or the usual one: ±1 for bits, evenly spaced symbols otherwise."""
    chosen = default_encoding("image", space) if encoding is None else encoding
    if isinstance(chosen, str):
        chosen = ENCODINGS.create(chosen)
    if not isinstance(chosen, ImageEncoding):
        raise UserError(f"encoding: {chosen!r} is not allowed; Gaussian noise needs sign, scalar or one_hot")
    try:
        chosen.check_rule(space)
    except SettingError as error:
        raise error.inside("encoding") from None
    return chosen
