"""Distances between two sets of features: Fréchet distance of fitted Gaussians, and kernel distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.core.errors import UserError
from twoclocks.core.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

TILE = 4096  # rows of a block of pairs: 128 MiB as float64


def frechet_distance(real: Tensor, fake: Tensor) -> Tensor:
    """Squared Fréchet distance |μ₁−μ₂|² + tr(Σ₁ + Σ₂ − 2(Σ₁Σ₂)^½) between Gaussians of features (n, d), as float64.

    FID is this number in the features of Inception. It is biased upwards, by about a constant divided by the number
    of rows, which depends on the distribution: two sets from one distribution have a distance above 0. Compare only
    values for equal numbers of rows, and with the floor, the value of two sets of real images of these sizes.

    The trace of (Σ₁Σ₂)^½ is the sum of the roots of the eigenvalues of Σ₁^½ Σ₂ Σ₁^½, which is symmetric: covariances
    without full rank need no added constant, and the result is never complex.

    >>> float(frechet_distance(torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0], [5.0]])))
    9.0
    """
    check_features(real, fake, least=2)
    (mean_a, cov_a), (mean_b, cov_b) = mean_and_covariance(real), mean_and_covariance(fake)
    values, vectors = torch.linalg.eigh(cov_a)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    product = root @ cov_b @ root
    cross = torch.linalg.eigvalsh((product + product.T) / 2).clamp(min=0).sqrt().sum()
    found: Tensor = (mean_a - mean_b).square().sum() + cov_a.trace() + cov_b.trace() - 2 * cross
    return found.clamp(min=0)  # rounding


def mean_and_covariance(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and unbiased covariance (d, d) in float64."""
    values = features.double()
    mean = values.mean(dim=0)
    centred = values - mean
    return mean, centred.T @ centred / (len(values) - 1)


def kernel_distance(real: Tensor, fake: Tensor) -> Tensor:
    """Unbiased squared MMD with the kernel (x·y/d + 1)³ (KID) between features (n, d) and (m, d), as float64.

    Its expectation is 0 for two sets from one distribution, whatever their sizes; a value can be below 0.
    """
    check_features(real, fake, least=2)
    n, m = len(real), len(fake)
    within = kernel_sum(real, real, but_itself=True) / (n * (n - 1)) + kernel_sum(fake, fake, but_itself=True) / (
        m * (m - 1)
    )
    return within - 2 * kernel_sum(real, fake) / (n * m)


def kernel_sum(a: Tensor, b: Tensor, but_itself: bool = False) -> Tensor:
    """Sum of (x·y/d + 1)³ over all pairs; ``but_itself``: without the pairs of equal index."""
    total = torch.zeros((), dtype=torch.float64, device=a.device)
    for left in a.split(TILE):
        for right in b.split(TILE):
            total += (left.double() @ right.double().T / a.shape[1] + 1).pow(3).sum()
    if but_itself:
        total -= sum_of_squares(a).div(a.shape[1]).add(1).pow(3).sum()
    return total


def sum_of_squares(rows: Tensor) -> Tensor:
    """Squared length of each row, as float64."""
    return rows.double().square().sum(dim=1)


def check_features(real: Tensor, fake: Tensor, least: int = 1) -> None:
    """Raise UserError unless both are finite floats of the shapes (n, d) and (m, d), with ``least`` rows or more."""
    for name, features in (("real", real), ("fake", fake)):
        if features.dim() != 2 or not features.shape[1] or not features.is_floating_point():
            found = f"{features.dtype} of the shape {tuple(features.shape)}"
            raise UserError(f"{name}: {found} is not allowed; use features as floats of the shape (n, d)")
        if len(features) < least:
            raise UserError(f"{name}: {len(features)} rows are not enough; use at least {least}")
        if not bool(torch.isfinite(features).all()):
            raise UserError(f"{name}: some features are not finite; check the feature network")
    if real.shape[1] != fake.shape[1]:
        raise UserError(
            f"fake: features have {fake.shape[1]} dimensions, those of real {real.shape[1]}; use one feature space"
        )
