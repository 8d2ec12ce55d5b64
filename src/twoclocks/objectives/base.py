"""The base class of objectives: a corruption, a per-sample loss, and the reverse process from noise to samples.

An objective gets the network as a callable and never knows its type, so an exact oracle can take its place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from twoclocks.core.config import Settings
from twoclocks.core.registry import Registry

Network = Callable[..., Tensor]
# What a network is asked: F(image (n, *shape), label (n,)) -> (n, *shape); logits (n, length, symbols) of the token
# behind each one, from tokens; logits of every clean token, from noisy tokens (n, length) and their noise (n,).
Task = Literal["denoise images", "predict the next token", "restore tokens"]
Denoiser: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # D(y (n, *shape), sigma (n,)) -> (n, *shape)
Capability = Literal["denoiser", "sampler_sigmas", "token_losses", "predictions", "prompted"]


@runtime_checkable
class CachingNetwork(Protocol):
    """A network that can read tokens one by one without reading those before again."""

    def new_cache(self) -> Any | None:
        """An empty cache, to be given as the second input; None: it has none after all."""


@dataclass(frozen=True, kw_only=True)
class Objective(Settings):
    """How a network is trained and sampled.

    Some objectives offer more than that, for whoever analyses a trained network: they override one of the methods
    named in ``Capability``, which return None here. ``offers`` returns whether an objective has one.
    """

    kind: ClassVar[str]  # of its samples: "image" or "tokens"
    task: ClassVar[Task]  # what the network must compute
    # Whether ``loss_given`` makes the same operations for every input of a shape (``models.Network.recordable``). A
    # class says so itself; its subclasses do not inherit it.
    recordable: ClassVar[bool] = False

    def loss(self, network: Network, clean: Tensor, generator: torch.Generator) -> Tensor:
        """Loss (n,) of each encoded sample in ``clean`` (n, *shape), the corruption drawn from ``generator``."""
        return self.loss_given(network, clean, *self.draw(clean, generator))

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw all randomness of a corruption of ``clean``, row by row; by default there is none."""
        return ()

    def fitted(self, symbols: int) -> Self:
        """The objective for data over a number of symbols; most objectives do not depend on it."""
        return self

    @property
    def predicts_variance(self) -> bool:
        """Whether the network must return variances too, as further channels (``ModelSettings.predicts_variance``)."""
        return False

    def noise_shift(self, step: int) -> float:
        """By how much the noise of step 1, 2, … is shifted, in the objective's own unit; see ``with_shift``."""
        return 0.0

    def with_shift(self, shift: Tensor, *drawn: Tensor) -> tuple[Tensor, ...]:
        """What was drawn, with its noise levels shifted; an objective without a curriculum has no shift."""
        return drawn

    @property
    def has_curriculum(self) -> bool:
        """Whether ``noise_shift`` is ever other than 0."""
        return False

    @abstractmethod
    def loss_given(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor:
        """Loss (n,) of each sample under the corruption that was drawn."""

    @classmethod
    def offers(cls, capability: Capability) -> bool:
        """Whether this objective has the capability, which is to say overrides the method of that name."""
        return getattr(cls, capability) is not getattr(Objective, capability)

    def predictions(self, network: Network, clean: Tensor, *drawn: Tensor) -> Tensor | None:
        """Probabilities (n, length, symbols) of every token under the corruption that was drawn."""
        return None

    def denoiser(self, network: Network) -> Denoiser | None:
        """D(y; σ), the network's estimate of the clean sample behind y = clean + σ·noise."""
        return None

    def sigma_range(self) -> tuple[float, float] | None:
        """Smallest and largest σ at which ``denoiser`` can be evaluated; None without a denoiser."""
        return None

    def sampler_sigmas(self) -> Tensor | None:
        """σ of a sample before each reverse step, then after the last one (levels + 1,); falls to 0.

        None also where the settings choose a sampler that is not a function of a denoiser.
        """
        return None

    def denoising_step(self, denoiser: Denoiser, state: Tensor, level: int) -> Tensor | None:
        """``reverse_step`` with a denoiser in place of the network; comes with ``sampler_sigmas``.

        The first call to the denoiser is made at ``state`` and at the σ of this level.
        """
        return None

    def token_losses(self, network: Network, clean: Tensor) -> Tensor | None:
        """Cross-entropy (n, length) in nats of every token given the tokens before it."""
        return None

    @abstractmethod
    def draw_noise(self, n: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw all randomness for n samples; samples are a deterministic function of network and noise."""

    @property
    @abstractmethod
    def levels(self) -> int | None:
        """Number of reverse steps from noise to a sample; None: one per token."""

    def network_calls(self, length: int) -> int:
        """How often the network is called for a sample of so many tokens or entries: once per reverse step."""
        return length if self.levels is None else self.levels

    @abstractmethod
    def begin(self, network: Network, noise: Tensor) -> Any:
        """The state before the first reverse step."""

    @abstractmethod
    def reverse_step(self, network: Network, state: Any, level: int) -> Any:
        """One step of the reverse process."""

    @abstractmethod
    def finish(self, state: Any) -> Tensor:
        """The encoded samples (n, *shape) after the last reverse step."""

    def prompted(self, state: Any, prompts: Tensor) -> Any | None:
        """The state with its first tokens replaced by ``prompts`` (n, k), as far as they are there yet."""
        return None


OBJECTIVES: Registry[Objective] = Registry("objective", Objective)


@torch.no_grad()
def sample(
    objective: Objective, network: Network, noise: Tensor, chunk: int | None = None, prompts: Tensor | None = None
) -> Tensor:
    """Draw encoded samples (n, *shape); row i depends on the network and ``noise[i]`` only.

    ``prompts`` (n, k): the first tokens of each sample, which the model continues; see ``Objective.prompted``.
    """
    if prompts is not None and prompts.shape[1] > noise.shape[1]:
        raise ValueError(f"prompts: {prompts.shape[1]} tokens, samples have {noise.shape[1]}; give shorter ones")
    done, size = [], chunk or (2048 if noise.is_cuda else 1024)
    parts = noise.split(size)
    for part, given in zip(parts, [None] * len(parts) if prompts is None else prompts.split(size), strict=True):
        state = objective.begin(network, part)
        for level in range(objective.levels if objective.levels is not None else part.shape[1]):
            state = objective.reverse_step(network, begun(objective, state, given), level)
        done.append(objective.finish(begun(objective, state, given)))
    return torch.cat(done)


def begun(objective: Objective, state: Any, prompts: Tensor | None) -> Any:
    """The state with the first tokens that are given, if any are."""
    if prompts is None:
        return state
    found = objective.prompted(state, prompts)
    if found is None:
        raise TypeError(f"objective {OBJECTIVES.name_of(objective)} cannot continue prompts")
    return found
