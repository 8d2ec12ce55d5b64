"""The two transitions of D3PM (Austin et al. 2021), uniform and absorbing, with the exact terms of its bound.

At times s < t a token is not yet replaced with probabilities α_s > α_t. Given the clean token x_0 and the noisy x_t,
the token at s has the posterior q(x_s | x_t, x_0). A network that predicts p(x_0 | x_t) thereby predicts
p(x_s | x_t) = Σ q(x_s | x_t, x_0) p(x_0 | x_t). The variational bound is a sum of Kullback–Leibler divergences between
the two, one for each pair of levels.

Predictions are given as messages, log p(x_0 = a | x_t) − log q(x_t | a): the information of all other tokens about this
one (up to a constant). Bayes' rule then needs only the message and a few constants for each pair of levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.constants import MASK


class Transitions(ABC):
    """Base class of corruptions of tokens. Tokens are (n, length), messages (n, length, symbols)."""

    @abstractmethod
    def corrupt(self, clean: Tensor, alpha: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        """Draw x_t at alpha α_t (n, 1), from the uniform numbers ``chosen`` and ``other`` (n, length)."""

    @abstractmethod
    def likelihood(self, tokens: Tensor, alpha: Tensor, symbols: int) -> Tensor:
        """log q(x_t | x_0 = a) for each symbol a (n, length, symbols), at alpha (n, 1); up to a constant per token."""

    @abstractmethod
    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        """Draw tokens at α = 0, from uniform numbers (n, length)."""

    @abstractmethod
    def pair(self, before: Tensor, now: Tensor, symbols: int) -> Tensor:
        """Constants of two levels with α_s = ``before`` and α_t = ``now`` (n,): (n, constants), float32."""

    @abstractmethod
    def divergence(self, clean: Tensor, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        """KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)) of every token (n, length), in nats.

        At s = 0 it is the reconstruction term −log p(x_0 | x_1).
        """

    @abstractmethod
    def clean_posterior(self, tokens: Tensor, message: Tensor, alpha: Tensor) -> Tensor:
        """p(x_0 | x_t) (n, length, symbols), at alpha (n, 1)."""

    @abstractmethod
    def reverse_posterior(self, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        """p(x_s | x_t): probabilities (n, length, outcomes); with a mask, it is outcome 0, before the symbols."""


class Uniform(Transitions):
    """A token becomes a uniform symbol, which may be the one it was: q(y | x) = α [y = x] + (1 − α)/symbols."""

    def corrupt(self, clean: Tensor, alpha: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        return torch.where(chosen < alpha, clean, self.prior(other, symbols))

    def likelihood(self, tokens: Tensor, alpha: Tensor, symbols: int) -> Tensor:
        other = (1 - alpha[..., None].double()) / symbols
        log_same, log_other = ((alpha[..., None] + other).log().float(), other.log().float())
        return torch.where(one_hot(tokens, symbols), log_same, log_other)

    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        return (uniform * symbols).long().clamp(max=symbols - 1)  # the product may round up

    def pair(self, before: Tensor, now: Tensor, symbols: int) -> Tensor:
        """log α_s and log (1 − α_s)/symbols; log q(x_t | x_s) for x_t = x_s, and for x_t ≠ x_s."""
        between = now / before
        numbers = before, (1 - before) / symbols, between + (1 - between) / symbols, (1 - between) / symbols
        return torch.stack(numbers, dim=1).double().log().float()

    def divergence(self, clean: Tensor, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        stay, change, log_same, log_other = pair[:, None, None].unbind(dim=-1)
        symbols = message.shape[-1]
        arrival = torch.where(one_hot(tokens, symbols), log_same, log_other)
        # Where x_0 is known, the sum over a in ``log_reverse_posterior`` has one term.
        truth = torch.where(one_hot(clean, symbols), torch.logaddexp(stay, change), change)
        exact = (arrival + truth).log_softmax(dim=-1)
        predicted = self.log_reverse_posterior(arrival, message, stay, change)
        probability = exact.exp()
        # Terms with q = 0 are zero, even if the network's probability is zero too.
        return (probability * (exact - predicted)).where(probability > 0, 0.0).sum(dim=-1)

    def clean_posterior(self, tokens: Tensor, message: Tensor, alpha: Tensor) -> Tensor:
        return (message + self.likelihood(tokens, alpha, message.shape[-1])).softmax(dim=-1)

    def reverse_posterior(self, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        stay, change, log_same, log_other = pair[:, None, None].unbind(dim=-1)
        arrival = torch.where(one_hot(tokens, message.shape[-1]), log_same, log_other)
        return self.log_reverse_posterior(arrival, message, stay, change).exp()

    def log_reverse_posterior(self, arrival: Tensor, message: Tensor, stay: Tensor, change: Tensor) -> Tensor:
        """log p(x_s = b | x_t) (n, length, symbols): p(b) ∝ q(x_t | b) Σ_a q(b | a) exp message(a)."""
        total = message.logsumexp(dim=-1, keepdim=True)
        return (arrival + torch.logaddexp(stay + message, change + total)).log_softmax(dim=-1)


class Absorbing(Transitions):
    """A token becomes the mask and stays masked; other tokens do not change."""

    def corrupt(self, clean: Tensor, alpha: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        return torch.where(chosen < alpha, clean, MASK)

    def likelihood(self, tokens: Tensor, alpha: Tensor, symbols: int) -> Tensor:
        """Zero: a mask has no information about the symbol, and other tokens are known."""
        return torch.zeros(1, 1, 1, device=tokens.device)

    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        return torch.full_like(uniform, MASK, dtype=torch.int64)

    def pair(self, before: Tensor, now: Tensor, symbols: int) -> Tensor:
        """The probability that a token that is masked at t was not masked at s."""
        return ((before - now) / (1 - now))[:, None].float()

    def divergence(self, clean: Tensor, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        return pair * masked_nll(clean, tokens, message)

    def reverse_posterior(self, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        revealed = pair[..., None]
        stays = (1 - revealed).expand(*tokens.shape, 1)
        outcomes = torch.cat([stays, message.softmax(dim=-1) * revealed], dim=-1)
        known = one_hot(tokens - MASK, outcomes.shape[-1]).to(outcomes.dtype)
        return torch.where((tokens == MASK)[..., None], outcomes, known)

    def clean_posterior(self, tokens: Tensor, message: Tensor, alpha: Tensor) -> Tensor:
        """p(x_0 | x_t): softmax of the message where the token is masked; other tokens are known."""
        known = one_hot(tokens, message.shape[-1]).to(message.dtype)
        return torch.where((tokens == MASK)[..., None], message.softmax(dim=-1), known)


def one_hot(tokens: Tensor, symbols: int) -> Tensor:
    """One-hot form of tokens, bool (n, length, symbols); all False for a mask."""
    return tokens[..., None] == torch.arange(symbols, device=tokens.device)


def masked_nll(clean: Tensor, tokens: Tensor, message: Tensor) -> Tensor:
    """Negative log-likelihood −log p(x_0 | x_t) (n, length) of masked tokens; zero for the others."""
    nll = functional.cross_entropy(message.transpose(1, 2), clean, reduction="none")
    return nll * (tokens == MASK)
