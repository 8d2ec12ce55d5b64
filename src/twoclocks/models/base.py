"""What every network's settings offer: build a module for data of a given shape."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor, nn

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError
from twoclocks.core.registry import Registry


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Settings of a kind of network."""

    task: ClassVar[str]  # what it can be asked, in the words of ``objectives.base.Task``
    example: ClassVar[tuple[tuple[int, ...], int]]  # shape and symbols of data for tables

    @abstractmethod
    def build(self, shape: tuple[int, ...], symbols: int) -> nn.Module:
        """A freshly initialised network for one encoded sample of ``shape`` over ``symbols`` symbols."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The network in words, such as ``DiT 64×3`` for width and depth."""

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
    width: int | None = setting(None, "features per token", at_least=1)
    depth: int | None = setting(None, "number of blocks", at_least=1)
    heads: int | None = setting(None, "attention heads", at_least=1)

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

    @property
    def title(self) -> str:
        width, depth, _ = self.dimensions
        return f"{self.written} {width}×{depth}"

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
