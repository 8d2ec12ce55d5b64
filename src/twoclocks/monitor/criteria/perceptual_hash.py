"""Copies by a perceptual hash: 64 bits of an image's coarse structure are almost those of a training image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.fft import dctn

from twoclocks.core.arrays import Floats
from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Flags, Matcher, Matches
from twoclocks.monitor.inputs import Values, checked_integer
from twoclocks.monitor.symmetries import image_axes
from twoclocks.monitor.training_set import TrainingSet

SIDE = 32  # pixels of the reduced image
FREQUENCIES = slice(1, 9)  # 8 × 8 low frequencies, without the constant ones
BITS = 64
LUMA = np.array([0.299, 0.587, 0.114])  # grey of red, green and blue (ITU-R BT.601)
BATCH = 1 << 24  # most entries of images that are hashed at once
TILE = 1 << 24  # most hashes compared at once
FLAT = 1e-6  # a reduced image that varies by less, relative to its largest value, has no structure

Hashes = npt.NDArray[np.uint64]


@CRITERIA.register("perceptual_hash")
@dataclass(frozen=True)
class PerceptualHash(Criterion):
    """A copy has a 64-bit perceptual hash (pHash) that differs in at most ``most`` bits from a training image's.

    The image is turned to grey, reduced to 32 × 32 pixels, and each of 8 × 8 low frequencies of its cosine transform is
    compared with their median. Scaling, brightness, contrast and compression change few bits. An image of one
    colour has no hash, and is never a copy.
    """

    most: int = 10
    about: ClassVar[str] = (
        "its 64-bit perceptual hash differs in at most `most` bits (default 10) from a training image's"
    )
    data: ClassVar[str] = f"images of at least {SIDE} × {SIDE} pixels"

    @property
    def name(self) -> str:
        return f"copies up to {self.most} bits of a perceptual hash"

    def __post_init__(self) -> None:
        checked_integer("most", self.most, 0, BITS // 2 - 1)  # unrelated images differ in about half of the bits

    def matcher(self, train: TrainingSet) -> Matcher:
        self.check_kind(train)
        check_size(train.shape)
        known = [perceptual_hashes(form) for form in train.forms()]

        def match(samples: Any, device: str = "cpu") -> Matches:
            hashes, structured = perceptual_hashes(samples)
            rows, distances = np.full(len(hashes), -1, dtype=np.int64), np.full(len(hashes), np.inf)
            for theirs, usable in known:
                candidates = np.flatnonzero(usable)
                found, bits = nearest_hashes(hashes, theirs[candidates])
                nearer = structured & (bits < distances)
                rows[nearer], distances[nearer] = candidates[found[nearer]], bits[nearer]
            return Matches(distances <= self.most, rows, distances)

        return match


def check_size(shape: tuple[int, ...]) -> None:
    """Raise UserError if rows of this shape are not images, or too small."""
    try:
        axes = image_axes(shape)
    except UserError:
        fix = "give images (H, W), (H, W, channels) or (channels, H, W)"
        raise UserError(f"copies: 'perceptual_hash' is for images, the rows have shape {shape}; {fix}") from None
    if min(shape[axis - 1] for axis in axes) < SIDE:
        fix = "use copies='ratio' or 'correlation'"
        raise UserError(f"copies: 'perceptual_hash' needs {SIDE} × {SIDE} pixels, the rows have shape {shape}; {fix}")


def perceptual_hashes(images: Values) -> tuple[Hashes, Flags]:
    """The hash of each image (n, *shape), and whether the image has any structure to hash: (n,) each."""
    hashes, structured = np.zeros(len(images), dtype=np.uint64), np.zeros(len(images), dtype=np.bool_)
    step = max(1, BATCH // max(1, int(np.prod(images.shape[1:]))))
    for begin in range(0, len(images), step):
        here = slice(begin, begin + step)
        small = reduced(grey(images[here]))
        waves = dctn(small, axes=(1, 2))[:, FREQUENCIES, FREQUENCIES].reshape(len(small), BITS)
        bits = waves > np.median(waves, axis=1, keepdims=True)
        hashes[here] = np.packbits(bits, axis=1).view(np.uint64)[:, 0]
        structured[here] = np.ptp(small, axis=(1, 2)) > FLAT * np.abs(small).max(axis=(1, 2))
    return hashes, structured


def grey(images: Values) -> Floats:
    """Images as arrays (n, H, W) of brightness; two channels count alike, those beyond three (opacity) are left out."""
    axes = image_axes(images.shape[1:])
    if images.ndim == 3:
        return images.astype(np.float64)
    colours = np.moveaxis(images, 6 - sum(axes), 3)  # the axis that is left of 1, 2 and 3
    if colours.shape[3] < len(LUMA):
        return np.asarray(colours.mean(3, dtype=np.float64))
    return np.asarray(colours[..., :3] @ LUMA)


def reduced(images: Floats) -> Floats:
    """Images (n, H, W) as (n, 32, 32): the mean brightness over the area of each new pixel."""
    down, across = area_weights(images.shape[1]), area_weights(images.shape[2])
    return np.asarray(down @ images @ across.T)


def area_weights(pixels: int) -> Floats:
    """The part of each old pixel in each of the 32 new ones: (32, pixels), rows with the sum 1."""
    edges = np.arange(SIDE + 1) * (pixels / SIDE)
    places = np.arange(pixels)
    cover = np.minimum(edges[1:, None], places + 1) - np.maximum(edges[:-1, None], places)
    return np.asarray(np.clip(cover, 0, None) * (SIDE / pixels))


def nearest_hashes(samples: Hashes, train: Hashes) -> tuple[npt.NDArray[np.int64], Floats]:
    """The training hash with the fewest differing bits for each sample, and their number: (n,) each."""
    rows, distances = np.full(len(samples), -1, dtype=np.int64), np.full(len(samples), np.inf)
    if not len(train):
        return rows, distances
    step = max(1, TILE // len(train))
    for begin in range(0, len(samples), step):
        here = slice(begin, begin + step)
        bits = np.bitwise_count(samples[here, None] ^ train)
        rows[here] = bits.argmin(1)
        distances[here] = np.take_along_axis(bits, rows[here][:, None], 1)[:, 0]
    return rows, distances
