"""Whitened images: without their mean and their correlations, so that a cosine compares what is special in each.

Real images resemble each other: two unrelated ones have a high cosine. P2 (Fig. 2) compares whitened ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from twoclocks.rules.images import Images

RIDGE = 0.01  # added to every variance, in mean variances: directions that hardly vary are noise, not features


@dataclass(frozen=True)
class Whitening:
    """A linear map after which images of a set have mean 0 and, but for the ridge, no correlations."""

    mean: Tensor  # (values,)
    scale: Tensor  # (values, values)

    def __call__(self, images: Tensor) -> Tensor:
        """Whitened vectors (n, values) of images (n, *shape), float64."""
        return (images.flatten(1).double() - self.mean) @ self.scale


def whitening(images: Tensor) -> Whitening:
    """The whitening of a set of images (n, *shape).

    >>> normal = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    >>> images = normal @ torch.tensor([[2.0, 1.0], [0.0, 1.0]])
    >>> white = whitening(images)(images)
    >>> torch.cov(white.T).round(decimals=1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = images.flatten(1).double()
    mean = rows.mean(dim=0)
    centred = rows - mean
    variances, directions = torch.linalg.eigh(centred.T @ centred / max(1, len(rows) - 1))
    ridge = RIDGE * variances.clamp(min=0).mean()
    scale = (directions / (variances.clamp(min=0) + ridge).sqrt()) @ directions.T
    return Whitening(mean, scale)


def whitening_of(rule: Images, device: torch.device | str) -> Whitening:
    """The whitening of the images that no run trains on; of all others where none are reserved."""
    images = rule.reserved_images()
    return whitening((images if len(images) > 1 else rule.members()).to(device))
