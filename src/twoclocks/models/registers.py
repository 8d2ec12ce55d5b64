"""Register tokens (Darcet et al. 2023): learned extra tokens that take part in attention and are never read out.

They are the same for every sample and belong to no position, so a network may use them as a place to keep what is
common to the whole sample.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

DEVIATION = 0.02  # of the initial values, as of GPT-2's embeddings


class Registers(nn.Module):
    """``count`` learned tokens (count, width); with 0 there is no parameter, and tokens pass unchanged."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.count = count
        self.vectors = nn.Parameter(torch.empty(count, width)) if count else None
        if self.vectors is not None:
            nn.init.normal_(self.vectors, std=DEVIATION)

    def in_front(self, tokens: Tensor) -> Tensor:
        """Tokens (n, length, width) behind the registers: there a causal network can read them at every position."""
        return tokens if self.vectors is None else torch.cat([self.rows(tokens), tokens], dim=1)

    def behind(self, tokens: Tensor) -> Tensor:
        """Tokens (n, length, width) with the registers behind them."""
        return tokens if self.vectors is None else torch.cat([tokens, self.rows(tokens)], dim=1)

    def rows(self, tokens: Tensor) -> Tensor:
        """The registers for each of these tokens' samples (n, count, width)."""
        assert self.vectors is not None
        return self.vectors.to(tokens.dtype).expand(len(tokens), -1, -1)

    def without_front(self, tokens: Tensor) -> Tensor:
        """The tokens that were given to ``in_front``, as they are now."""
        return tokens[:, self.count :] if self.count else tokens

    def without_back(self, tokens: Tensor) -> Tensor:
        """The tokens that were given to ``behind``, as they are now."""
        return tokens[:, : -self.count] if self.count else tokens
