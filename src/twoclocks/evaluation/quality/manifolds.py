"""Quality from nearest neighbours in a feature space: precision, recall, density, coverage and authenticity.

Each number compares distances between pairs. They are computed from differences, not from products: equal points have
the distance 0, and a pair has the same distance wherever it stands, so that ties are decided alike on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from twoclocks.core.lazy import torch
from twoclocks.evaluation.quality.distances import check_features

if TYPE_CHECKING:
    from torch import Tensor

PAIRS = 1 << 24  # distances in memory at once: 64 MiB as float32
NEIGHBOURS = 5  # k of all publications that are cited here, or near it


class PrecisionRecall(NamedTuple):
    """Which samples look real, and which real images the samples reach."""

    precise: Tensor  # bool (fake,): lies in the ball of a real image
    recalled: Tensor  # bool (real,): lies in the ball of a sample


class DensityCoverage(NamedTuple):
    """How many real images each sample is close to, and which real images have a sample close by."""

    density: Tensor  # float64 (fake,): real images in whose ball the sample lies, divided by k
    covered: Tensor  # bool (real,): a sample lies in its ball


def precision_recall(real: Tensor, fake: Tensor, k: int = NEIGHBOURS) -> PrecisionRecall:
    """Improved precision and recall (Kynkäänniemi et al. 2019) of features (n, d) and (m, d), as flags.

    The ball of a point reaches to its k-th nearest other point of the same set. Precision is the mean of ``precise``,
    recall that of ``recalled``. Both depend on the numbers of rows, so compare equal numbers.
    """
    check_features(real, fake, least=k + 1)
    precise = torch.zeros(len(fake), dtype=torch.bool, device=fake.device)
    recalled = []
    radii, reach = kth_distances(real, k), kth_distances(fake, k)
    for rows, distances in tiles(real, fake):
        precise |= (distances < radii[rows, None]).any(dim=0)
        recalled.append((distances < reach).any(dim=1))
    return PrecisionRecall(precise, torch.cat(recalled))


def density_coverage(real: Tensor, fake: Tensor, k: int = NEIGHBOURS) -> DensityCoverage:
    """Density and coverage (Naeem et al. 2020) of features (n, d) and (m, d).

    Only balls of real images count, so an outlier among the samples does not enlarge anything. The mean of
    ``density`` is 1 in expectation, and that of ``covered`` is 1 − 2^−k for large equal numbers of rows, if both sets
    come from one distribution.
    """
    check_features(real, fake, least=1)
    check_features(real, real, least=k + 1)
    inside = torch.zeros(len(fake), dtype=torch.int64, device=fake.device)
    covered = []
    radii = kth_distances(real, k)
    for rows, distances in tiles(real, fake):
        within = distances < radii[rows, None]
        inside += within.sum(dim=0)
        covered.append(within.any(dim=1))
    return DensityCoverage(inside.double() / k, torch.cat(covered))


def authenticity(train: Tensor, fake: Tensor, spacing: Tensor | None = None) -> Tensor:
    """Which samples are authentic (Alaa et al. 2022, as AuthPct in dgm-eval): bool (m,); copies are not.

    A sample is authentic if it is farther from its nearest training image than that image is from its own nearest
    other training image. Many new real images are not authentic either, so compare with their share. ``spacing`` is
    ``kth_distances(train, 1)`` where it is already known.
    """
    check_features(train, fake, least=1)
    check_features(train, train, least=2)
    spacing = kth_distances(train, 1) if spacing is None else spacing
    authentic = []
    for _, distances in tiles(fake, train):
        nearest = distances.min(dim=1)
        authentic.append(spacing[nearest.indices] < nearest.values)
    return torch.cat(authentic)


def kth_distances(points: Tensor, k: int) -> Tensor:
    """Distance (n,) of each point (n, d) to its k-th nearest other point."""
    found = [distances.kthvalue(k + 1, dim=1).values for _, distances in tiles(points, points)]  # itself is the first
    return torch.cat(found)


def tiles(rows: Tensor, columns: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Distances of a block of rows to all columns, block by block, with the place of the block."""
    side = max(1, PAIRS // max(1, len(columns)))
    for start in range(0, len(rows), side):
        place = slice(start, start + side)
        yield place, torch.cdist(rows[place], columns, compute_mode="donot_use_mm_for_euclid_dist")
