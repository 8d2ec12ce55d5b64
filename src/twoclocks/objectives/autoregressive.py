"""Next-token prediction: cross-entropy after a start token, and sampling at a temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.objectives.base import OBJECTIVES, CachingNetwork, Network, Objective, Task
from twoclocks.objectives.randomness import sample_categorical

START = -1  # the start token; the network embeds it after the last symbol, as token 2 if the symbols are 0 and 1


@dataclass
class Prefix:
    """Start token and tokens generated so far, uniform numbers of all positions, and the network's cache."""

    tokens: Tensor  # (n, 1 + level)
    uniforms: Tensor  # (n, length)
    cache: Any | None


@OBJECTIVES.register("autoregressive")
@dataclass(frozen=True, kw_only=True)
class Autoregressive(Objective):
    """Next-token cross-entropy with a start token in front."""

    kind: ClassVar[str] = "tokens"
    task: ClassVar[Task] = "predict the next token"
    recordable: ClassVar[bool] = True
    temperature: float = setting(1.0, "sampling temperature", above=0)

    def token_losses(self, network: Network, clean: Tensor) -> Tensor:
        """Cross-entropy (n, length) in nats of every token given the tokens before it."""
        logits = network(self.shifted(clean))
        return functional.cross_entropy(logits.transpose(1, 2).float(), clean, reduction="none")

    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        return self.token_losses(network, clean).mean(dim=1)

    def predictions(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """P(token | tokens before it) at temperature 1."""
        return network(self.shifted(clean)).float().softmax(dim=-1)

    def shifted(self, clean: Tensor) -> Tensor:
        """Network input: the start token, then all symbols but the last."""
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
        symbol = sample_categorical(probabilities, state.uniforms[:, level])
        return Prefix(torch.cat([state.tokens, symbol[:, None]], dim=1), state.uniforms, state.cache)

    def prompted(self, state: Prefix, prompts: Tensor) -> Prefix:
        """The token that was generated last is replaced where a given one belongs; the cache has not read it yet."""
        there = min(state.tokens.shape[1] - 1, prompts.shape[1])
        tokens = torch.cat([state.tokens[:, :1], prompts[:, :there], state.tokens[:, 1 + there :]], dim=1)
        return Prefix(tokens, state.uniforms, state.cache)

    def finish(self, state: Prefix) -> Tensor:
        return state.tokens[:, 1:]
