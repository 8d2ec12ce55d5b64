"""Augmentation without labels that keeps the rule: groups or rows change places, images are mirrored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("augmentation")
@dataclass(frozen=True, kw_only=True)
class Augmentation(Intervention):
    """Every sample is shown with its pieces in a random order, or mirrored or not."""

    def change(self, base: RunSettings) -> dict[str, Any]:
        return {"data.augment": True}
