"""Metrics of raw outputs: how far the entries of a sample lie from the nearest symbol before they are rounded to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from twoclocks.evaluation.metric import METRICS, Column, Count, Metric, mean, proportion
from twoclocks.evaluation.samples import Samples

if TYPE_CHECKING:
    from torch import Tensor


@METRICS.register("quantization_distance")
class QuantizationDistance(Metric):
    """The largest distance of an entry of a sample to a symbol, mean over samples."""

    name: ClassVar[str] = "quantization_distance"
    place: ClassVar[int] = 3

    def columns(self) -> list[Column]:
        return [
            Column(
                name=self.name,
                about="mean over samples of the largest distance of an entry to a symbol",
                direction="lower is better",
                chance_rule=0.0,
                chance_cube=0.0,
            )
        ]

    def __call__(self, samples: Samples) -> dict[str, Tensor]:
        return {self.name: mean(samples.distance)}


@METRICS.register("invalid")
class Invalid(Metric):
    """Samples with an entry between symbols: one column per distance in ``evaluation.quantization``."""

    name: ClassVar[str] = "invalid"
    place: ClassVar[int] = 4

    @staticmethod
    def column(threshold: float) -> str:
        """The name of the column of a distance: ``invalid_0.5``."""
        return f"invalid_{threshold:g}"

    def columns(self) -> list[Column]:
        return [
            Column(
                name=self.column(threshold),
                about=f"samples with an entry farther than {threshold:g} from every symbol",
                direction="lower is better",
                chance_rule=0.0,
            )
            for threshold in self.reference.settings.quantization
        ]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        thresholds = self.reference.settings.quantization
        return {self.column(threshold): proportion(samples.distance > threshold) for threshold in thresholds}
