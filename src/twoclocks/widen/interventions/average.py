"""An exponential moving average of the weights (EMA): samples are drawn from the average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from twoclocks.core.config import setting
from twoclocks.runs.columns import Weights
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@INTERVENTIONS.register("average")
@dataclass(frozen=True, kw_only=True)
class AveragedWeights(Intervention):
    """Samples of the averaged weights; training itself is that of the base."""

    weights: ClassVar[Weights] = "averaged"
    decay: float = setting(0.999, "decay per step of the average", above=0, below=1)

    def change(self, base: RunSettings) -> dict[str, Any]:
        # A run stops by itself when the raw weights copy; the average is later.
        return {"training.average": self.decay, "clocks.stop": "never"}
