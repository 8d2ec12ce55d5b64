"""Loss floors: the expected loss of the exact denoiser, below which no model can get."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.core.seeds import torch_stream
from twoclocks.data.encodings import Arrays, Encoding, ImageEncoding
from twoclocks.data.sets import cube_set
from twoclocks.oracles.discrete import Corruption, cross_entropy
from twoclocks.oracles.empirical import empirical_denoiser
from twoclocks.oracles.gaussian import Denoiser, cube_denoiser, rule_denoiser
from twoclocks.oracles.posterior import rule_posterior
from twoclocks.rules.base import Rule


class Floor(NamedTuple):
    """An expected loss, averaged over entries and channels, and the standard error of its Monte-Carlo estimate."""

    loss: float
    error: float


def rule_floor(
    rule: Rule, sigma: float, samples: int = 4096, seed: int = 0, encoding: ImageEncoding | str | None = None
) -> Floor:
    """Loss floor E‖x − E[x | y]‖² for valid x: the least loss on held-out samples, reached by learning the rule.

    >>> from twoclocks import rules
    >>> rule_floor(rules.create("parity", length=36, group=3), sigma=0.7).loss
    0.108...
    """
    return gaussian_floor(rule_denoiser(rule, encoding), rule, rule.sample(at_least_two(samples), seed), sigma, seed)


def empirical_floor(
    train: Tensor,
    sigma: float,
    samples: int = 4096,
    seed: int = 0,
    rule: Arrays | None = None,
    encoding: Encoding | str | None = None,
) -> Floor:
    """Loss floor for x drawn from the training rows: the least training loss, reached only by memorization."""
    train = torch.as_tensor(train)
    denoiser = empirical_denoiser(train, rule, encoding)
    assert denoiser.space is not None
    picked = torch.randint(len(train), (at_least_two(samples),), generator=torch_stream(seed, "floor rows"))
    return gaussian_floor(denoiser, denoiser.space, train[picked], sigma, seed)


def cube_floor(
    rule: Rule, sigma: float, samples: int = 4096, seed: int = 0, encoding: ImageEncoding | str | None = None
) -> Floor:
    """Loss floor for x of uniform symbols: the least loss of a model that knows the symbols but no rule."""
    return gaussian_floor(cube_denoiser(rule, encoding), rule, cube_set(rule, at_least_two(samples), seed), sigma, seed)


def gaussian_floor(denoiser: Denoiser, space: Arrays, rows: Tensor, sigma: float, seed: int) -> Floor:
    """Mean posterior variance over noisy rows: it has the expectation of ‖x − D(y)‖², and a smaller standard error.

    The noise depends on the seed alone: floors at different σ, or of different oracles, share it.
    """
    clean = denoiser.encoding.encode(space, rows).double()
    noise = torch.randn(clean.shape, generator=torch_stream(seed, "floor noise"), dtype=torch.float64).to(clean.device)
    return mean_and_error(denoiser.variance(clean + sigma * noise, sigma))


def token_floor(rule: Rule, corruption: Corruption, samples: int = 4096, seed: int = 0) -> Floor:
    """Loss floor of models that restore tokens: mean −log P(x_i | tokens) in nats for valid x."""
    rows = rule.sample(at_least_two(samples), seed)
    tokens = corruption.corrupt(rows, rule.symbols, torch_stream(seed, "floor noise"))
    posterior = rule_posterior(rule)(corruption.logits(tokens, rule.symbols))
    return mean_and_error(cross_entropy(posterior, rows).mean(dim=1))


def mean_and_error(losses: Tensor) -> Floor:
    """Mean of per-sample losses, with its standard error."""
    return Floor(float(losses.mean()), float(losses.std()) / math.sqrt(len(losses)))


def at_least_two(samples: int) -> int:
    """Return ``samples``, or raise UserError if they are too few for a standard error."""
    if samples < 2:
        raise UserError(f"samples: {samples} is not allowed; use at least 2, for the standard error")
    return samples
