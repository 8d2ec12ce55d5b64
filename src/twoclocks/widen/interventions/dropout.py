"""Dropout on what attention and MLP add to the residual stream of a transformer, or in the blocks of a U-Net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("dropout")
@dataclass(frozen=True, kw_only=True)
class Dropout(Intervention):
    """Dropout in every block of the network."""

    rate: float = setting(0.1, "probability that an entry is dropped", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"model.dropout": self.rate}
