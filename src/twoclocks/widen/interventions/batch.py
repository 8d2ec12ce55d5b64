"""A larger or smaller batch, with the learning rate scaled along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twoclocks.core.config import setting
from twoclocks.runs.settings import RunSettings
from twoclocks.widen.intervention import INTERVENTIONS, Intervention


@dataclass(frozen=True, kw_only=True)
class Batch(Intervention):
    """Base class: the batch times a factor; the rate times its root for Adam, and times the factor itself for SGD."""

    factor: float = setting(help="by what the batch is multiplied", above=0)

    def change(self, base: RunSettings) -> dict[str, Any]:
        batch = max(1, round(self.factor * base.training.batch))
        scale = batch / base.training.batch
        power = 1.0 if base.training.optimizer == "sgd" else 0.5
        return {"training.batch": batch, "training.learning_rate": base.training.learning_rate * scale**power}


@INTERVENTIONS.register("larger_batch")
@dataclass(frozen=True, kw_only=True)
class LargerBatch(Batch):
    """More samples per step, at a higher rate."""

    factor: float = setting(4.0, "by what the batch is multiplied", above=1)


@INTERVENTIONS.register("smaller_batch")
@dataclass(frozen=True, kw_only=True)
class SmallerBatch(Batch):
    """Fewer samples per step, at a lower rate."""

    factor: float = setting(0.25, "by what the batch is multiplied", above=0, below=1)
