"""The metric of the quality of images: seven columns from one set of features."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from twoclocks.core.lazy import torch
from twoclocks.evaluation.metric import METRICS, Column, Count, Direction, Metric, Value
from twoclocks.evaluation.quality.autoencoder import AutoencoderSpace
from twoclocks.evaluation.quality.real_images import LEAST, Quality, QualityScale, images_of
from twoclocks.evaluation.samples import Samples

MEANING: dict[str, tuple[str, Direction]] = {
    "frechet": ("Fréchet distance to held-out images", "lower is better"),
    "kernel_distance": ("kernel distance (KID) to held-out images", "lower is better"),
    "precision": ("samples that lie among held-out images", "higher is better"),
    "recall": ("held-out images that lie among the samples", "higher is better"),
    "density": ("held-out images that a sample is close to, relative to real images", "higher is better"),
    "coverage": ("held-out images that have a sample close by", "higher is better"),
    "authenticity": ("samples farther from their nearest training image than it is from the next", "higher is better"),
}


@METRICS.register("image_quality")
class ImageQuality(Metric):
    """Quality of images in the features of ``evaluation.features``; no columns where samples are no images.

    ``chance_rule`` is the floor: the value of real images that were held out, for the same number of images
    (``QualityScale``). There are no columns where fewer than 64 images are held out, or fewer than 32 are sampled.
    """

    name: ClassVar[str] = "image_quality"
    place: ClassVar[int] = 20

    @cached_property
    def scale(self) -> QualityScale | None:
        images, settings = images_of(self.reference), self.reference.settings
        if images is None:
            return None
        scale = QualityScale(images, settings.features or AutoencoderSpace(), settings.samples)
        return scale if scale.group >= LEAST else None

    def columns(self) -> list[Column]:
        if self.scale is None:
            return []
        features = self.scale.features
        where = f"features {features.name!r}, SHA-256 {features.digest[:12]}"
        floors = values(self.scale.floor)
        return [
            Column(name=name, about=f"{about} ({where})", direction=direction, chance_rule=as_float(floors[name]))
            for name, (about, direction) in MEANING.items()
        ]

    def __call__(self, samples: Samples) -> dict[str, Value]:
        return {} if self.scale is None else values(self.scale(samples.symbols.to(torch.uint8)))


def values(quality: Quality) -> dict[str, Value]:
    """The value of each column. Proportions of samples are counts; those of held-out images are means over groups."""
    return {
        "frechet": quality.frechet,
        "kernel_distance": quality.kernel_distance,
        "precision": Count(quality.precise, quality.compared),
        "recall": quality.recall,
        "density": quality.density,
        "coverage": quality.coverage,
        "authenticity": Count(quality.authentic, quality.samples),
    }


def as_float(value: Value) -> float:
    """A value on the host; counts are those of ``values``, with their trials."""
    return float(value) if isinstance(value, torch.Tensor) else float(value.hits) / int(value.trials or 0)
