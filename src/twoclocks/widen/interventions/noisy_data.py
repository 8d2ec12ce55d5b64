"""Noisy training data: a few entries of every shown sample are those of another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("noisy_data")
@dataclass(frozen=True, kw_only=True)
class NoisyData(Intervention):
    """A share of the entries is replaced, each time anew."""

    share: float = setting(0.02, "share of the entries", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"data.noise": self.share}
