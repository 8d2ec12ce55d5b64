"""The two ways in which D3PM (Austin et al. 2021) forgets tokens, with their exact terms.

Times s < t have alpha probabilities α_s > α_t. Given the clean token x_0 and the noisy x_t, the token at s has the
posterior q(x_s | x_t, x_0). A network that says p(x_0 | x_t) thereby says p(x_s | x_t) = Σ q(x_s | x_t, x_0)
p(x_0 | x_t), and the variational bound is a sum of Kullback–Leibler divergences between the two, one for each pair of
levels.

Beliefs come as messages: log p(x_0 = a | x_t) − log q(x_t | a), what all other tokens say about one (any constant may
be added). Bayes' rule then needs nothing but the message and a few numbers for each pair of levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.constants import MASK


class Transitions(ABC):
    """One kind of corruption. Tokens are (n, length), messages (n, length, symbols)."""

    @abstractmethod
    def corrupted(self, clean: Tensor, alpha: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        """Tokens at survivals (n, 1); ``chosen`` and ``other`` are uniform numbers (n, length)."""

    @abstractmethod
    def likelihood(self, tokens: Tensor, alpha: Tensor, symbols: int) -> Tensor:
        """log q(x_t | x_0 = a) along a (n, length, symbols), at survivals (n, 1); up to a constant for each token."""

    @abstractmethod
    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        """Tokens when all is forgotten, from uniform numbers (n, length)."""

    @abstractmethod
    def pair(self, before: Tensor, now: Tensor, symbols: int) -> Tensor:
        """All that is to be known of two levels with survivals α_s and α_t (n,): (n, numbers), float32."""

    @abstractmethod
    def divergence(self, clean: Tensor, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        """KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)) of every token (n, length), in nats.

        At s = 0 it is the reconstruction term −log p(x_0 | x_1).
        """

    @abstractmethod
    def belief(self, tokens: Tensor, message: Tensor, alpha: Tensor) -> Tensor:
        """p(x_0 | x_t) (n, length, symbols), at survivals (n, 1)."""

    @abstractmethod
    def reverse_posterior(self, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        """p(x_s | x_t): probabilities (n, length, outcomes); an outcome before the symbols is the mask."""


class Uniform(Transitions):
    """A token becomes a uniform symbol, which may be the one it was: q(y | x) = α [y = x] + (1 − α)/symbols."""

    def corrupted(self, clean: Tensor, alpha: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        return torch.where(chosen < alpha, clean, self.prior(other, symbols))

    def likelihood(self, tokens: Tensor, alpha: Tensor, symbols: int) -> Tensor:
        other = (1 - alpha[..., None].double()) / symbols
        kept, lost = ((alpha[..., None] + other).log().float(), other.log().float())
        return torch.where(one_hot(tokens, symbols), kept, lost)

    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        return (uniform * symbols).long().clamp(max=symbols - 1)  # the product may round up

    def pair(self, before: Tensor, now: Tensor, symbols: int) -> Tensor:
        """log α_s, log (1 − α_s)/symbols; log q(x_t | x_s) where they are the same, and where not."""
        between = now / before
        numbers = before, (1 - before) / symbols, between + (1 - between) / symbols, (1 - between) / symbols
        return torch.stack(numbers, dim=1).double().log().float()

    def divergence(self, clean: Tensor, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        stay, change, kept, lost = pair[:, None, None].unbind(dim=-1)
        symbols = message.shape[-1]
        arrival = torch.where(one_hot(tokens, symbols), kept, lost)
        # Where x_0 is known the message is all or nothing, and the sum over a has one term.
        truth = torch.where(one_hot(clean, symbols), torch.logaddexp(stay, change), change)
        exact = (arrival + truth).log_softmax(dim=-1)
        said = self.posterior(arrival, message, stay, change)
        share = exact.exp()
        # Where the posterior is zero it adds nothing, whatever the network says.
        return (share * (exact - said)).where(share > 0, 0.0).sum(dim=-1)

    def belief(self, tokens: Tensor, message: Tensor, alpha: Tensor) -> Tensor:
        return (message + self.likelihood(tokens, alpha, message.shape[-1])).softmax(dim=-1)

    def reverse_posterior(self, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        stay, change, kept, lost = pair[:, None, None].unbind(dim=-1)
        return self.posterior(torch.where(one_hot(tokens, message.shape[-1]), kept, lost), message, stay, change).exp()

    def posterior(self, arrival: Tensor, message: Tensor, stay: Tensor, change: Tensor) -> Tensor:
        """log p(x_s = b | x_t) (n, length, symbols): p(b) ∝ q(x_t | b) Σ_a q(b | a) exp message(a)."""
        total = message.logsumexp(dim=-1, keepdim=True)
        return (arrival + torch.logaddexp(stay + message, change + total)).log_softmax(dim=-1)


class Absorbing(Transitions):
    """A token becomes the mask and stays it; all others are as they were."""

    def corrupted(self, clean: Tensor, alpha: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        return torch.where(chosen < alpha, clean, MASK)

    def likelihood(self, tokens: Tensor, alpha: Tensor, symbols: int) -> Tensor:
        """A mask says nothing, and nobody asks about the others."""
        return torch.zeros(1, 1, 1, device=tokens.device)

    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        return torch.full_like(uniform, MASK, dtype=torch.int64)

    def pair(self, before: Tensor, now: Tensor, symbols: int) -> Tensor:
        """The probability that a mask at t was a symbol at s."""
        return ((before - now) / (1 - now))[:, None].float()

    def divergence(self, clean: Tensor, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        return pair * masked_nll(clean, tokens, message)

    def reverse_posterior(self, tokens: Tensor, message: Tensor, pair: Tensor) -> Tensor:
        revealed = pair[..., None]
        stays = (1 - revealed).expand(*tokens.shape, 1)
        outcomes = torch.cat([stays, message.softmax(dim=-1) * revealed], dim=-1)
        known = one_hot(tokens - MASK, outcomes.shape[-1]).to(outcomes.dtype)
        return torch.where((tokens == MASK)[..., None], outcomes, known)

    def belief(self, tokens: Tensor, message: Tensor, alpha: Tensor) -> Tensor:
        """What is not masked is known."""
        known = one_hot(tokens, message.shape[-1]).to(message.dtype)
        return torch.where((tokens == MASK)[..., None], message.softmax(dim=-1), known)


def one_hot(tokens: Tensor, symbols: int) -> Tensor:
    """Which symbol each token is, bool (n, length, symbols); a mask is none."""
    return tokens[..., None] == torch.arange(symbols, device=tokens.device)


def masked_nll(clean: Tensor, tokens: Tensor, message: Tensor) -> Tensor:
    """−log p(x_0 | x_t) (n, length) where the token is masked, zero elsewhere."""
    nll = functional.cross_entropy(message.transpose(1, 2), clean, reduction="none")
    return nll * (tokens == MASK)
