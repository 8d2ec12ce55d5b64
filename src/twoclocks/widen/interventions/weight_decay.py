"""Weight decay, decoupled from the gradient: Adam becomes AdamW."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("weight_decay")
@dataclass(frozen=True, kw_only=True)
class WeightDecay(Intervention):
    """Decoupled weight decay."""

    decay: float = setting(0.1, "weight decay", above=0)

    def change(self, base: RunSettings) -> dict[str, Any]:
        adam = {"training.optimizer": "adamw"} if base.training.optimizer == "adam" else {}
        return {**adam, "training.weight_decay": self.decay}
