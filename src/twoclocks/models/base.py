"""What every network's settings offer: build a module for data of a given shape."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from twoclocks.core.config import Settings, setting
from twoclocks.core.errors import SettingError
from twoclocks.core.registry import Registry


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """A transformer's size: a published name, or any width, depth and number of heads in its place."""

    sizes: ClassVar[dict[str, tuple[int, int, int]]] = {}  # name -> (width, depth, heads)
    kind: ClassVar[str]  # what it reads: "image" or "tokens"

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

    @abstractmethod
    def build(self, shape: tuple[int, ...], symbols: int) -> nn.Module:
        """A freshly initialised network for one encoded sample of ``shape`` over ``symbols`` symbols."""


MODELS: Registry[ModelSettings] = Registry("model", ModelSettings)


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
