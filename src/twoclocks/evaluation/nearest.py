"""The metric of distances to the nearest training sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from twoclocks.evaluation.metric import METRICS, Column, Metric, mean, mean_over
from twoclocks.evaluation.samples import Reference, Samples

if TYPE_CHECKING:
    from torch import Tensor


@METRICS.register("nearest_distance")
class NearestDistance(Metric):
    """Hamming distance to the nearest training sample: mean over all, the valid, the valid and new samples."""

    name: ClassVar[str] = "nearest_distance"
    of_valid: ClassVar[str] = "nearest_distance_valid"
    of_valid_new: ClassVar[str] = "nearest_distance_valid_new"
    place: ClassVar[int] = 10

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference)
        self.neighbours = reference.neighbours

    def columns(self) -> list[Column]:
        names = {self.name: "all samples"}
        if self.reference.rule.has_rule:
            names |= {self.of_valid: "valid samples", self.of_valid_new: "valid and new samples"}
        return [
            Column(
                name=name,
                about=f"mean Hamming distance to the nearest training sample, over {whom}",
                direction="neither",
            )
            for name, whom in names.items()
        ]

    def __call__(self, samples: Samples) -> dict[str, Tensor]:
        nearest = self.neighbours.distance(samples.symbols)
        found = {self.name: mean(nearest)}
        if self.reference.rule.has_rule:
            found[self.of_valid] = mean_over(nearest, samples.outcome.valid)
            found[self.of_valid_new] = mean_over(nearest, samples.new)
        return found
