"""Exact denoisers E[x | y] under Gaussian noise y = x + σn, for data from the cube or the rule.

They are the outputs of a perfect model of each, in any image encoding; ``oracles.empirical`` has that of a
training set. All arithmetic is float64, for any dtype of y.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from twoclocks.core.errors import SettingError, UserError
from twoclocks.data.encodings import ENCODINGS, Arrays, Encoding, ImageEncoding, Space, default_encoding
from twoclocks.oracles.posterior import Posterior, cube_posterior, rule_posterior
from twoclocks.rules.base import Rule

Sigma: TypeAlias = "Tensor | float"


@dataclass(frozen=True)
class Denoiser(ABC):
    """An exact denoiser D(y, sigma), with y float (n, *shape) and sigma a float or (n,).

    The shape is that of the rule (with the symbols first for one-hot), or of the network's image with its channels.
    """

    encoding: Encoding
    space: Arrays | None  # None: bits of any shape

    @abstractmethod
    def __call__(self, y: Tensor, sigma: Sigma) -> Tensor:
        """Posterior mean E[x | y], in the shape and dtype of y."""

    @abstractmethod
    def variance(self, y: Tensor, sigma: Sigma) -> Tensor:
        """Posterior variance E[‖x − E[x | y]‖² | y], averaged over entries and channels (n,)."""

    def space_of(self, y: Tensor) -> Arrays:
        """Shape and symbols of the data that y belongs to; UserError if the shapes do not agree."""
        if self.space is None:
            return Space(tuple(y.shape[1:]))
        image, entries = self.encoding.shape(self.space), math.prod(self.space.shape)
        if math.prod(y.shape[1:]) != math.prod(image) or y.dim() < 2:
            bare = self.space.shape if math.prod(image) == entries else (math.prod(image) // entries, *self.space.shape)
            allowed = " or ".join(dict.fromkeys(f"(n, *{shape})" for shape in (bare, image)))
            raise UserError(f"y: shape {tuple(y.shape)} is not allowed; use {allowed}")
        return self.space


@dataclass(frozen=True)
class SymbolDenoiser(Denoiser):
    """The denoiser of a distribution over symbols whose posterior marginals are known."""

    encoding: ImageEncoding
    marginals: Posterior

    def posterior(self, y: Tensor, sigma: Sigma) -> Tensor:
        """Posterior P(x_i = a | y), (n, entries, symbols), float64."""
        y = as_floats(y)
        check_finite(y)
        space = self.space_of(y)
        return self.marginals(self.encoding.scores(space, y.double()) / broadcast_sigma(sigma, y) ** 2)

    def __call__(self, y: Tensor, sigma: Sigma) -> Tensor:
        y = as_floats(y)
        mean = self.posterior(y, sigma) @ self.codes(y)  # (n, entries, channels)
        return mean.transpose(1, 2).reshape(y.shape).to(y.dtype)

    def variance(self, y: Tensor, sigma: Sigma) -> Tensor:
        y = as_floats(y)
        codes, posterior = self.codes(y), self.posterior(y, sigma)
        second = posterior @ codes.square().sum(dim=1)  # (n, entries)
        spread = second - (posterior @ codes).square().sum(dim=2)
        return spread.clamp(min=0).mean(dim=1) / codes.shape[1]

    def codes(self, y: Tensor) -> Tensor:
        """The channel values of each symbol (symbols, channels), on the device of y."""
        return self.encoding.codes(self.space_of(y).symbols).to(y.device)


def as_floats(y: Tensor) -> Tensor:
    """Convert noisy data to a tensor of floats; integers become floats."""
    y = torch.as_tensor(y)
    return y if y.is_floating_point() else y.to(torch.get_default_dtype())


def check_finite(y: Tensor) -> None:
    """Raise UserError if y contains NaN or infinity."""
    if not bool(torch.isfinite(y).all()):
        raise UserError("y: contains NaN or infinity; give finite values")


def broadcast_sigma(sigma: Sigma, y: Tensor) -> Tensor:
    """Check σ and reshape it to (1, 1, 1) or (n, 1, 1)."""
    level = torch.as_tensor(sigma, dtype=torch.float64, device=y.device)
    if level.numel() not in (1, len(y)) or level.dim() > 1 or not bool((level > 0).all()):
        raise UserError(f"sigma: {sigma} is not allowed; use a positive number, or one for each of the {len(y)} rows")
    return level.reshape(-1, 1, 1)


def cube_denoiser(rule: Arrays | None = None, encoding: Encoding | str | None = None) -> SymbolDenoiser:
    """Exact denoiser for uniform symbols; for bits it is E[x_i | y] = tanh(y_i/σ²). Without a rule: bits."""
    space = rule if rule is not None else Space(())
    return SymbolDenoiser(image_encoding(encoding, space), rule, cube_posterior)


def rule_denoiser(rule: Rule, encoding: Encoding | str | None = None) -> SymbolDenoiser:
    """Exact denoiser for the uniform distribution over the samples of a rule.

    >>> from twoclocks import rules
    >>> rule_denoiser(rules.create("parity", length=2, group=2))(torch.tensor([[1.0, 0.0]]), 0.5)
    tensor([[0.9993, 0.9993]])
    """
    return SymbolDenoiser(image_encoding(encoding, rule), rule, rule_posterior(rule))


def gaussian_encoding(encoding: Encoding | str | None, space: Arrays) -> Encoding:
    """The given encoding, or the default: ±1 for bits, evenly spaced symbols otherwise, pixels of real images."""
    chosen = default_encoding("image", space) if encoding is None else encoding
    if isinstance(chosen, str):
        chosen = ENCODINGS.create(chosen)
    if chosen.kind != "image":
        raise UserError(f"encoding: {chosen!r} is not allowed; Gaussian noise needs sign, scalar, one_hot or pixels")
    try:
        chosen.check_rule(space)
    except SettingError as error:
        raise error.inside("encoding") from None
    return chosen


def image_encoding(encoding: Encoding | str | None, space: Arrays) -> ImageEncoding:
    """The same, where each symbol must be a point."""
    chosen = gaussian_encoding(encoding, space)
    if not isinstance(chosen, ImageEncoding):
        raise UserError(f"encoding: {chosen!r} is not allowed; this oracle needs sign, scalar or one_hot")
    return chosen
