"""An auxiliary loss on hidden entries (after P1's proposal of masked group-parity prediction)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("masked_loss")
@dataclass(frozen=True, kw_only=True)
class MaskedInput(Intervention):
    """The same loss again, with some entries of the input hidden; a step computes twice as much."""

    weight: float = setting(1.0, "weight of the auxiliary loss", above=0)
    share: float = setting(0.15, "share of the entries that are hidden", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"training.masked_loss": self.weight, "training.masked_share": self.share}
