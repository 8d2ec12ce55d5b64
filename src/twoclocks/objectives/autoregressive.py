"""Next-token prediction: cross-entropy behind a start token, sampling at a temperature by inverse transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.objectives.base import OBJECTIVES, CachingNetwork, Network, Objective, Task
from twoclocks.objectives.randomness import pick

START = -1  # "nothing yet": the network embeds it behind the last symbol, as token 2 where the symbols are 0 and 1


@dataclass
class Prefix:
    """Tokens generated so far behind the start token, the uniforms still to use, and the network's cache."""

    tokens: Tensor  # (n, 1 + level)
    uniforms: Tensor  # (n, length)
    cache: Any | None


@OBJECTIVES.register("autoregressive")
@dataclass(frozen=True, kw_only=True)
class Autoregressive(Objective):
    """Next-token cross-entropy behind a start token."""

    kind: ClassVar[str] = "tokens"
    task: ClassVar[Task] = "predict the next token"
    temperature: float = setting(1.0, "sampling temperature", above=0)

    def token_losses(self, network: Network, clean: Tensor) -> Tensor:
        """Cross-entropy (n, length) in nats of every token given the tokens before it."""
        logits = network(self.shifted(clean))
        return functional.cross_entropy(logits.transpose(1, 2).float(), clean, reduction="none")

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        return self.token_losses(network, clean).mean(dim=1)

    def predictions(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """P(token | the tokens before it) as it is learned, at temperature 1."""
        return network(self.shifted(clean)).float().softmax(dim=-1)

    def shifted(self, clean: Tensor) -> Tensor:
        """What the network reads: the start token, then all but the last symbol."""
        return functional.pad(clean[:, :-1], (1, 0), value=START)

    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.rand((n, *shape), generator=generator, device=generator.device)

    @property
    def levels(self) -> None:
        return None

    def begin(self, network: Network, noise: Tensor) -> Prefix:
        start = torch.full((len(noise), 1), START, dtype=torch.int64, device=noise.device)
        return Prefix(start, noise, network.new_cache() if isinstance(network, CachingNetwork) else None)

    def reverse_step(self, network: Network, state: Prefix, level: int) -> Prefix:
        if state.cache is None:
            logits = network(state.tokens)[:, -1]
        else:
            logits = network(state.tokens[:, -1:], state.cache)[:, -1]
        probabilities = (logits.float() / self.temperature).softmax(dim=-1)
        symbol = pick(probabilities, state.uniforms[:, level])
        return Prefix(torch.cat([state.tokens, symbol[:, None]], dim=1), state.uniforms, state.cache)

    def finish(self, state: Prefix) -> Tensor:
        return state.tokens[:, 1:]
