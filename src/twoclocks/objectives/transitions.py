"""The two ways in which D3PM (Austin et al. 2021) forgets tokens, with their exact terms.

Times s < t have survival probabilities α_s > α_t. Given the clean token x_0 and the noisy x_t, the token at s has the
posterior q(x_s | x_t, x_0). A network that says p(x_0 | x_t) thereby says p(x_s | x_t) = Σ q(x_s | x_t, x_0)
p(x_0 | x_t), and the variational bound is a sum of Kullback–Leibler divergences between the two, one for each pair of
levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional

MASK = -1  # stands for "nothing is known here"


class Transitions(ABC):
    """One kind of corruption. Survivals are (n, 1), tokens (n, length), logits (n, length, symbols)."""

    @abstractmethod
    def corrupted(self, clean: Tensor, now: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        """Tokens at survival ``now``; ``chosen`` and ``other`` are uniform numbers (n, length)."""

    @abstractmethod
    def divergence(self, clean: Tensor, tokens: Tensor, logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)) of every token (n, length), in nats, s at ``before``, t at ``now``.

        At s = 0 it is the reconstruction term −log p(x_0 | x_1).
        """

    @abstractmethod
    def step_back(self, tokens: Tensor, logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """p(x_s | x_t): probabilities (n, length, outcomes); an outcome behind the symbols is the mask."""

    @abstractmethod
    def likelihood(self, tokens: Tensor, logits: Tensor, survival: Tensor) -> Tensor:
        """log q(x_t | x_0 = a) of the tokens, along a, in the shape of ``logits``; up to a constant a token."""

    @abstractmethod
    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        """Tokens when all is forgotten, from uniform numbers (n, length)."""


class Uniform(Transitions):
    """A token becomes a uniform symbol, which may be the one it was."""

    def corrupted(self, clean: Tensor, now: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        return torch.where(chosen < now, clean, self.prior(other, symbols))

    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        return (uniform * symbols).long().clamp(max=symbols - 1)  # the product may round up

    def divergence(self, clean: Tensor, tokens: Tensor, logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
        symbols = logits.shape[-1]
        truth = functional.one_hot(clean, symbols).to(logits.dtype)
        posterior = self.posterior(tokens, truth.log(), before, now)
        said = self.posterior(tokens, logits.log_softmax(dim=-1), before, now)
        exact = posterior.exp()
        # Where the posterior is zero it adds nothing, whatever the network says.
        return (exact * (posterior - said)).where(exact > 0, 0.0).sum(dim=-1)

    def step_back(self, tokens: Tensor, logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
        return self.posterior(tokens, logits.log_softmax(dim=-1), before, now).exp()

    def posterior(self, tokens: Tensor, belief: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """log p(x_s = b | x_t = c) (n, length, symbols) for a belief log p(x_0 = a | x_t).

        p(b) = q(c | b) Σ_a q(b | a) p(a)/q(c | a), where q(y | x) = α [y = x] + (1 − α)/symbols.
        """
        symbols = belief.shape[-1]
        ratio = belief - self.likelihood(tokens, belief, now)
        total = ratio.logsumexp(dim=-1, keepdim=True)
        stay, change = before[..., None].log().to(belief), ((1 - before[..., None]) / symbols).log().to(belief)
        return self.likelihood(tokens, belief, now / before) + torch.logaddexp(stay + ratio, change + total)

    def likelihood(self, tokens: Tensor, logits: Tensor, survival: Tensor) -> Tensor:
        same = functional.one_hot(tokens, logits.shape[-1]).bool()
        other = (1 - survival[..., None]) / logits.shape[-1]
        kept, lost = (survival[..., None] + other).log(), other.log()
        return torch.where(same, kept.to(logits), lost.to(logits))


class Absorbing(Transitions):
    """A token becomes the mask and stays it; all others are as they were."""

    def corrupted(self, clean: Tensor, now: Tensor, chosen: Tensor, other: Tensor, symbols: int) -> Tensor:
        return torch.where(chosen < now, clean, MASK)

    def prior(self, uniform: Tensor, symbols: int) -> Tensor:
        return torch.full_like(uniform, MASK, dtype=torch.int64)

    def likelihood(self, tokens: Tensor, logits: Tensor, survival: Tensor) -> Tensor:
        """A mask says nothing, and nobody asks about the others."""
        return torch.zeros_like(logits)

    def divergence(self, clean: Tensor, tokens: Tensor, logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
        return self.revealed(before, now).to(logits) * masked_surprise(clean, tokens, logits)

    def step_back(self, tokens: Tensor, logits: Tensor, before: Tensor, now: Tensor) -> Tensor:
        revealed = self.revealed(before, now)[..., None].to(logits.dtype)
        probabilities = logits.softmax(dim=-1) * revealed
        stays = (1 - revealed).expand(*tokens.shape, 1)
        known = functional.one_hot(tokens.clamp(min=0), logits.shape[-1] + 1).to(logits.dtype)
        return torch.where((tokens == MASK)[..., None], torch.cat([probabilities, stays], dim=-1), known)

    def revealed(self, before: Tensor, now: Tensor) -> Tensor:
        """Probability that a mask at t was a symbol at s."""
        return (before - now) / (1 - now)


def masked_surprise(clean: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
    """−log p(x_0 | x_t) (n, length) where the token is masked, zero elsewhere."""
    surprise = functional.cross_entropy(logits.transpose(1, 2), clean, reduction="none")
    return surprise * (tokens == MASK)
