"""The metrics of distances to the nearest training sample: differing symbols, or Euclidean for images."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from twoclocks.evaluation.image_neighbours import ImageNeighbours
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


@METRICS.register("image_distance")
class ImageDistance(Metric):
    """Distance of a sample to the nearest training image and to the nearest held-out one, and what held-out ones have.

    Equally many images of both are searched: with more images, the nearest one is nearer.
    """

    name: ClassVar[str] = "image_distance"
    to_held_out: ClassVar[str] = "image_distance_held_out"
    place: ClassVar[int] = 10
    of: ClassVar[Literal["images"]] = "images"

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference)
        held_out = reference.held_out
        enough = held_out is not None and len(held_out) >= len(reference.train)
        self.held_out = ImageNeighbours(held_out[: len(reference.train)]) if enough and held_out is not None else None

    def columns(self) -> list[Column]:
        where, found = "root mean square over values in [−1, 1]", self.reference.held_out_nearest
        chance = None if found is None else float(found.distance[:, 0].mean())
        about = f"mean distance to the nearest training image ({where})"
        columns = [Column(name=self.name, about=about, direction="neither", chance_rule=chance)]
        if self.held_out is not None:
            about = f"mean distance to the nearest of as many held-out images ({where})"
            columns.append(Column(name=self.to_held_out, about=about, direction="neither"))
        return columns

    def __call__(self, samples: Samples) -> dict[str, Tensor]:
        found = {self.name: mean(samples.nearest.distance[:, 0])}
        if self.held_out is not None:
            found[self.to_held_out] = mean(self.held_out.two_nearest(samples.symbols).distance[:, 0])
        return found
