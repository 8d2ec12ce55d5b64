"""What every network and its settings offer: a module for data of a given shape, with a textbook forward pass."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError
from twoclocks.core.registry import Registry

MOST_WIDTH, MOST_DEPTH = 1 << 20, 256  # on any machine: even to count its weights, a network is built block by block
MOST_REGISTERS = 1 << 10


class FusedForm(Protocol):
    """A faster way to compute what a network's ``forward`` computes; made by ``kernels/`` for one network."""

    def __call__(self, network: Any, *inputs: Any, **named: Any) -> Tensor:
        """The result of ``network.forward(*inputs, **named)``, up to rounding."""

    def finish_gradients(self) -> None:
        """Complete the gradients of the last backward pass; called before they are read."""

    def weights_changed(self) -> None:
        """Renew what was derived from the weights; called after anything but the optimizer changed them."""


class Network(nn.Module):
    """A network: a ``forward`` that reads like its publication, and optional offers, each with a default.

    Its task says what ``forward`` gets: an image (n, *shape) and a noise label (n,); tokens (n, length); or noisy
    tokens (n, length) and their noise (n,).
    """

    # Whether copies of the process may compute parts of a batch (training/forked_step.py). A class says so itself; its
    # subclasses do not inherit it. Its ``forward`` must change neither weights nor buffers.
    divisible: ClassVar[bool] = False
    # Whether ``forward`` makes the same operations for every input of a shape, so that a step may repeat a list of them
    # (training/recording.py): numbers that change come from tensors, none from Python, but for attributes of layers
    # that are assigned anew. Nothing is written but what it computed. Not inherited either.
    recordable: ClassVar[bool] = False
    fused: FusedForm | None = None  # replaces ``forward`` while it is set

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return super().__call__(*inputs, **named) if self.fused is None else self.fused(self, *inputs, **named)

    def new_cache(self) -> Any | None:
        """An empty cache to pass as the second input when tokens come one by one; None: the network has none."""
        return None

    def begin_step(self, key: int) -> None:
        """Called before every training step with a key that depends on (seed, step) alone, for random numbers of it."""

    def learning_rates(self, optimizer: str) -> Mapping[str, float]:
        """What the learning rate is multiplied by, per parameter name, for "adam", "adamw" or "sgd"; by default 1."""
        return {}


def in_float32(layer: nn.Module, x: Tensor) -> Tensor:
    """The layer outside of autocast: what meets data, noise levels or the output keeps full precision."""
    with torch.autocast(x.device.type, enabled=False):
        out: Tensor = layer(x.to(next(layer.parameters()).dtype))
    return out


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Settings of a kind of network."""

    task: ClassVar[str]  # what it can be asked, in the words of ``objectives.base.Task``
    example: ClassVar[tuple[tuple[int, ...], int]]  # shape and symbols of data for tables

    @abstractmethod
    def build(self, shape: tuple[int, ...], symbols: int) -> Network:
        """A freshly initialised network for one encoded sample of ``shape`` over ``symbols`` symbols."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The network in words, such as ``DiT 64×3`` for width and depth."""

    @property
    def predicts_variance(self) -> bool:
        """Whether the network returns twice the channels of an image, for objectives that ask for variances too."""
        return False

    def activations(self, shape: tuple[int, ...], symbols: int) -> int:
        """Numbers per sample that the backward pass keeps, roughly and rather too few; 0: unknown."""
        return 0

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise SettingError where there is no such network for samples of this shape."""

    @classmethod
    def published(cls) -> Mapping[str, Self]:
        """Sizes with a name."""
        return {"": cls()}


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(ModelSettings):
    """A transformer's size: a published name, or any width, depth and number of heads in its place."""

    sizes: ClassVar[dict[str, tuple[int, int, int]]] = {}  # name -> (width, depth, heads)
    written: ClassVar[str]  # as people write its name

    size: str = setting("mini", "published size; width, depth and heads override it")
    width: int | None = setting(None, "features per token", at_least=1, at_most=MOST_WIDTH)
    depth: int | None = setting(None, "number of blocks", at_least=1, at_most=MOST_DEPTH)
    heads: int | None = setting(None, "attention heads", at_least=1, at_most=MOST_WIDTH)
    registers: int = setting(
        0, "learned extra tokens that the others can attend to; 0: none", at_least=0, at_most=MOST_REGISTERS, added=True
    )
    dropout: float = setting(
        0.0,
        "probability of dropout in training, on what attention and MLPs add to the tokens",
        at_least=0,
        below=1,
        added=True,
    )

    def check(self) -> None:
        if self.size not in self.sizes:
            raise SettingError("size", self.size, f"use one of {', '.join(self.sizes)}, or set width, depth and heads")
        width, _, heads = self.dimensions
        if width % heads:
            raise SettingError("width", width, f"use a multiple of heads = {heads}")

    @property
    def dimensions(self) -> tuple[int, int, int]:
        """(width, depth, heads) after the overrides."""
        width, depth, heads = self.sizes[self.size]
        return self.width or width, self.depth or depth, self.heads or heads

    def tokens(self, shape: tuple[int, ...]) -> int:
        """Tokens of a sample of this shape, without registers."""
        return math.prod(shape[-2:])

    def activations(self, shape: tuple[int, ...], symbols: int) -> int:
        """Per token and block: normed inputs, queries, keys, values, attention, and twice the wide layer of the MLP."""
        width, depth, _ = self.dimensions
        return 12 * width * depth * (self.tokens(shape) + self.registers)

    @property
    def title(self) -> str:
        width, depth, _ = self.dimensions
        words = [f"{self.written} {width}×{depth}"]
        if self.registers:
            words.append(f"{self.registers} register{'s' if self.registers > 1 else ''}")
        if self.dropout:
            words.append(f"dropout {self.dropout:g}")
        return ", ".join(words)

    @classmethod
    def published(cls) -> Mapping[str, Self]:
        return {name: cls(size=name) for name in cls.sizes}


MODELS: Registry[ModelSettings] = Registry("model", ModelSettings)


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def distinct_labels(label: Tensor) -> Tensor:
    """One noise label (1,) where all rows share it, else the labels (n,) as they are.

    A sampler expands a single number to one label per row, without copies. A network may then compute what depends on
    the label once, and let it broadcast; a network that does not know this is called with labels (n,) all the same.
    """
    return label[:1] if label.stride(0) == 0 else label
