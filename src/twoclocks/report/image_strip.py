"""Generated images from the same initial noise at a few steps, each above its nearest training image."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from twoclocks.evaluation.image_neighbours import ImageNeighbours, Nearest, fraction
from twoclocks.report.pictures import data_url
from twoclocks.runs.load import Run


@dataclass(frozen=True)
class ImageTile:
    sample: str  # data URLs
    original: str  # the nearest training image
    ratio: float  # d₁/d₂
    copied: bool


@dataclass(frozen=True)
class ImageStrip:
    """The stored samples of one evaluation: as many as are shown, and how many of all are copies."""

    label: str
    step: int
    tiles: list[ImageTile]
    copies: int
    samples: int


class ImageStrips:
    """Makes the strips of one run; training images are compared and drawn once."""

    def __init__(self, run: Run) -> None:
        self.train = run.settings.data.training_set(run.settings.rule)
        self.ratio = run.settings.evaluation.copy_ratio
        self.neighbours = ImageNeighbours(self.train)

    @property
    def criterion(self) -> str:
        """When a sample is a copy, in words."""
        return f"d₁/d₂ is below {fraction(self.ratio)}"

    def strip(self, label: str, step: int, pixels: Tensor, shown: int) -> ImageStrip:
        """The first samples of an evaluation."""
        nearest = self.neighbours.two_nearest(pixels)
        chosen = list(range(min(shown, len(pixels))))
        return ImageStrip(label, step, self.tiles(pixels, nearest, chosen), self.copies(nearest), len(pixels))

    def nearest_first(self, step: int, pixels: Tensor, shown: int) -> ImageStrip:
        """The samples of an evaluation with the smallest ratios."""
        nearest = self.neighbours.two_nearest(pixels)
        chosen = nearest.ratio.argsort(stable=True)[:shown].tolist()
        tiles = self.tiles(pixels, nearest, chosen)
        return ImageStrip("smallest ratios first", step, tiles, self.copies(nearest), len(pixels))

    def copies(self, nearest: Nearest) -> int:
        return int((nearest.ratio < self.ratio).sum())

    def tiles(self, pixels: Tensor, nearest: Nearest, chosen: list[int]) -> list[ImageTile]:
        return [
            ImageTile(
                data_url(pixels[k].numpy()),
                data_url(self.train[int(nearest.row[k, 0])].numpy()),
                float(nearest.ratio[k]),
                bool(nearest.ratio[k] < self.ratio),
            )
            for k in chosen
        ]
