"""A model of your own: a network with one hidden layer that reads the noise level as one more input.

Save this file, change it, and use it:

    twoclocks list templates model > my_model.py
    twoclocks list models --import my_model.py
    twoclocks run demo --import my_model.py --model.name one_layer --model.width 256
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.core.config import setting
from twoclocks.models.base import MODELS, ModelSettings, Network


@MODELS.register("one_layer")  # the name in settings: --model.name one_layer
@dataclass(frozen=True, kw_only=True)
class OneLayerSettings(ModelSettings):
    """One hidden layer for images, with the noise level as an input."""

    # What the network is called with. Other tasks: "predict the next token" (tokens) and "restore tokens" (tokens,
    # noise); see ``twoclocks.objectives.base.Task``.
    task: ClassVar[str] = "denoise images"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((1, 6, 6), 2)  # shape and symbols for `twoclocks list models`
    width: int = setting(512, "hidden units", at_least=1)

    @property
    def title(self) -> str:
        """The name of the network in tables and on pages."""
        return f"One layer {self.width}"

    def build(self, shape: tuple[int, ...], symbols: int) -> Network:
        """A new network for samples of ``shape``; its initial weights come from torch's global generator."""
        return OneLayer(math.prod(shape), self.width)


class OneLayer(Network):  # a torch module
    """F(x, label): images (n, *shape) and one noise label per row (n,) to images (n, *shape)."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(entries + 1, width)
        self.out = nn.Linear(width, entries)

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        inputs = torch.cat([x.flatten(1), noise_label[:, None]], dim=1)
        out: Tensor = self.out(functional.silu(self.hidden(inputs)))
        return out.reshape(x.shape)


# In a test of yours:
#     from twoclocks import objectives
#     from twoclocks.testing import check_model
#     check_model(OneLayerSettings(), (1, 2, 4), 2, objectives.EDM())
