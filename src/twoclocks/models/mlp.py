"""One hidden layer of ReLU units in two limits of infinite width (P2 App. G): lazy (NTK) and mean-field.

f(x) = s(m) Σ_j a_j relu(w_j·x/√d) for x of d entries and m units, s = 1/√m (NTK) or 1/m (mean-field). All weights
start as standard normals, in pairs of units with the same w and opposite a, so that f starts at exactly zero. There
are no biases, and the noise label is not read: the network knows one noise level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from twoclocks.core.config import setting
from twoclocks.core.errors import SettingError
from twoclocks.models.base import MODELS, ModelSettings, Network


@MODELS.register("mlp")
@dataclass(frozen=True, kw_only=True)
class MLPSettings(ModelSettings):
    """One hidden layer of ReLU units, without biases and blind to the noise level."""

    task: ClassVar[str] = "denoise images"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((64, 1, 1), 16_384)
    width: int = setting(8_192, "hidden units; an even number, as they start in pairs", at_least=2, at_most=1 << 24)
    limit: Literal["ntk", "mean_field"] = setting(
        "ntk", "ntk: output scale 1/√width, features hardly move; mean_field: 1/width, they move"
    )

    def check(self) -> None:
        if self.width % 2:
            raise SettingError("width", self.width, f"units start in pairs of opposite sign; use {self.width + 1}")

    def activations(self, shape: tuple[int, ...], symbols: int) -> int:
        return self.width

    @property
    def title(self) -> str:
        return f"MLP {self.width} ({'NTK' if self.limit == 'ntk' else 'mean-field'})"

    def build(self, shape: tuple[int, ...], symbols: int) -> MLP:
        return MLP(self, shape)


class MLP(Network):
    """f(x): (n, *shape) and a noise label (n,), which is not read, to (n, *shape)."""

    divisible: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __init__(self, settings: MLPSettings, shape: tuple[int, ...]) -> None:
        super().__init__()
        entries, self.width, self.limit = math.prod(shape), settings.width, settings.limit
        self.output_scale = self.width**-0.5 if self.limit == "ntk" else 1 / self.width
        self.hidden = nn.Linear(entries, self.width, bias=False)
        self.output = nn.Linear(self.width, entries, bias=False)
        half = self.width // 2
        with torch.no_grad():
            self.hidden.weight.copy_(torch.randn(half, entries).repeat(2, 1))
            outgoing = torch.randn(entries, half)
            self.output.weight.copy_(torch.cat([outgoing, -outgoing], dim=1))

    def learning_rates(self, optimizer: str) -> dict[str, float]:
        """Factors under which one step changes the function by as much at every width.

        Gradient descent moves f by rate · s² · (a sum over m units); Adam, whose steps have a size of their own, by
        rate · s · (a sum over m units).
        """
        gained = self.width * (self.output_scale**2 if optimizer == "sgd" else self.output_scale)
        return dict.fromkeys(("hidden.weight", "output.weight"), 1 / gained)

    def features(self, x: Tensor) -> Tensor:
        """relu(w·x/√d) of every unit (n, width)."""
        flat = x.flatten(1)
        hidden: Tensor = self.hidden(flat / math.sqrt(flat.shape[1]))
        return hidden.relu()

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        out: Tensor = self.output(self.features(x))
        return (self.output_scale * out.to(x.dtype)).reshape(x.shape)
