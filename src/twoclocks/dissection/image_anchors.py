"""The images around a training image, and which training image a denoised one is a copy of.

Pixels are numbers, not symbols: an output is never equal to an image, so it counts as one by the ratio of its distances
to the two nearest ones, as samples do (``evaluation/image_neighbours.py``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from twoclocks.data.sets import natural_held_out
from twoclocks.dissection.subject import Subject
from twoclocks.dissection.view import ViewError
from twoclocks.evaluation.image_neighbours import ImageNeighbours, Nearest


def held_out_of(subject: Subject) -> Tensor:
    """Images (n, *shape) that the run was not trained on; ViewError where there are fewer than two."""
    found = natural_held_out(subject.rule, subject.train, subject.settings.data.seed)
    if found is None or len(found) < 2:
        raise ViewError("fewer than two images are held out; train with a smaller data.n")
    return found


def neighbours_of(subject: Subject, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The training images of these rows (n, *shape), the held-out and the other training image nearest to each."""
    images, unseen = subject.train[rows], held_out_of(subject)
    other = ImageNeighbours(subject.train).two_nearest(images).row[:, 1]  # the first is the image itself
    return images, unseen[ImageNeighbours(unseen).two_nearest(images).row[:, 0]], subject.train[other]


def nearest_images(subject: Subject, denoised: Tensor, images: Tensor | None = None) -> Nearest:
    """The two nearest images, by default training images, of each denoised one (n, *shape)."""
    rows = subject.train if images is None else images
    pixels = subject.encoding.decode(subject.rule, denoised).symbols
    return ImageNeighbours(rows.to(pixels.device)).two_nearest(pixels)


def copied_rows(subject: Subject, nearest: Nearest) -> Tensor:
    """The row of the image of which each output is a copy (n,); −1: of none."""
    return torch.where(nearest.ratio < subject.settings.evaluation.copy_ratio, nearest.row[:, 0], -1)
