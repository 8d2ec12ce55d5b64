"""Leave out what is known already: the samples of a step with the lowest loss have no gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("trimmed_loss")
@dataclass(frozen=True, kw_only=True)
class TrimmedLoss(Intervention):
    """The samples of a step with the lowest loss do not count."""

    share: float = setting(0.25, "share of the samples", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"training.trim": self.share}
