"""Register tokens: learned tokens without a place in the sample, as global memory (P1's first proposal)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("registers")
@dataclass(frozen=True, kw_only=True)
class Registers(Intervention):
    """Learned tokens that every position can read and write."""

    count: int = setting(4, "number of register tokens", at_least=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"model.registers": self.count}
