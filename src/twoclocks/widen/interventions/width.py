"""A wider or narrower network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.models.base import TransformerSettings
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@dataclass(frozen=True, kw_only=True)
class Width(Intervention):
    """Base class: the width of the network times a factor; heads of a transformer keep their number."""

    factor: float = setting(help="by what the width is multiplied", above=0)

    def change(self, base: RunSettings) -> dict[str, Any]:
        model = base.model
        if isinstance(model, TransformerSettings):
            width, _, heads = model.dimensions
            unit = math.lcm(4, heads)  # 2D positions need a multiple of 4
            return {"model.width": unit * max(1, round(self.factor * width / unit))}
        return {"model.width": max(1, round(self.factor * getattr(model, "width", 0)))}


@INTERVENTIONS.register("wider")
@dataclass(frozen=True, kw_only=True)
class Wider(Width):
    """A wider network, with the same depth."""

    factor: float = setting(2.0, "by what the width is multiplied", above=1)


@INTERVENTIONS.register("narrower")
@dataclass(frozen=True, kw_only=True)
class Narrower(Width):
    """A narrower network, with the same depth."""

    factor: float = setting(0.5, "by what the width is multiplied", above=0, below=1)
