"""Fréchet and kernel distance: closed forms, scipy's matrix root, a slow version, and the bias at finite n."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.evaluation.quality import distances, frechet_distance, kernel_distance


def normal(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_moments(mean: Tensor, root: Tensor, n: int = 200, seed: int = 0) -> Tensor:
    """Points whose sample mean is exactly ``mean`` and whose sample covariance is exactly root·rootᵀ."""
    x = normal(n, len(mean), seed)
    x = x - x.mean(dim=0)
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(x.T @ x / (n - 1)), x.T, upper=False).T
    return whitened @ root.T + mean


@pytest.mark.parametrize(("n", "m", "d"), [(300, 200, 5), (40, 50, 32), (20, 30, 64)])  # the last has no full rank
def test_frechet_distance_is_that_of_scipy(n: int, m: int, d: int) -> None:
    mixing = normal(d, d, 3)
    real, fake = normal(n, d) @ mixing, normal(m, d, 1) + 0.3
    a, b = np.cov(real.numpy().T), np.cov(fake.numpy().T)
    root = np.real(scipy.linalg.sqrtm(a @ b + (1e-13 * np.eye(d) if n < d else 0)))
    expected = ((real.mean(0) - fake.mean(0)) ** 2).sum() + np.trace(a + b - 2 * root)
    assert float(frechet_distance(real, fake)) == pytest.approx(float(expected), rel=1e-4 if n < d else 1e-9)
    assert float(frechet_distance(fake, real)) == pytest.approx(float(frechet_distance(real, fake)), rel=1e-6)


def test_frechet_distance_of_gaussians_with_known_moments() -> None:
    scales, others = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([2.0, 2.0, 0.5]).double()
    shift = torch.tensor([1.0, -2.0, 0.0]).double()
    rotation = torch.linalg.qr(normal(3, 3)).Q
    real = with_moments(torch.zeros(3).double(), rotation @ torch.diag(scales))
    fake = with_moments(shift, rotation @ torch.diag(others), seed=5)
    expected = float(shift.square().sum() + (scales - others).square().sum())  # roots commute
    assert float(frechet_distance(real, fake)) == pytest.approx(expected, rel=1e-9)
    assert float(frechet_distance(real.float(), fake.float())) == pytest.approx(expected, rel=1e-5)
    assert float(frechet_distance(real, real)) == pytest.approx(0, abs=1e-9)


def test_frechet_distance_is_biased_upwards_and_kernel_distance_is_not() -> None:
    """Ten pairs of sets from one distribution at each size."""
    values, kernel = {}, []
    for n in (50, 200, 800):
        pairs = [(normal(n, 8, 2 * seed), normal(n, 8, 2 * seed + 1)) for seed in range(10)]
        values[n] = float(torch.stack([frechet_distance(*pair) for pair in pairs]).mean())
        if n == 200:
            kernel = [float(kernel_distance(*pair)) for pair in pairs]
    assert values[50] / values[200] == pytest.approx(4, rel=0.25) and values[200] / values[800] == pytest.approx(
        4, rel=0.25
    )
    assert min(kernel) < 0 < max(kernel) and abs(np.mean(kernel)) < 3 * np.std(kernel) / np.sqrt(10)


def test_kernel_distance_is_the_sum_over_pairs_in_any_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    real, fake = normal(13, 4), normal(9, 4, 1) + 0.5
    k = lambda x, y: float((x @ y / 4 + 1) ** 3)  # noqa: E731
    within = [
        sum(k(x, y) for i, x in enumerate(rows) for j, y in enumerate(rows) if i != j) / (len(rows) * (len(rows) - 1))
        for rows in (real, fake)
    ]
    expected = sum(within) - 2 * sum(k(x, y) for x in real for y in fake) / (13 * 9)
    for tile in (4096, 5, 1):
        monkeypatch.setattr(distances, "TILE", tile)
        assert float(kernel_distance(real, fake)) == pytest.approx(expected, rel=1e-9)


BAD = {
    r"real: torch.float64 of the shape \(5, 2, 2\)": (normal(5, 4).reshape(5, 2, 2), normal(5, 4)),
    r"fake: torch.int64 of the shape \(5, 4\)": (normal(5, 4), torch.ones(5, 4, dtype=torch.int64)),
    "fake: features have 3 dimensions, those of real 4": (normal(5, 4), normal(5, 3)),
    "fake: 1 rows are not enough; use at least 2": (normal(5, 4), normal(1, 4)),
    "real: some features are not finite": (normal(5, 4) / 0, normal(5, 4)),
}


@pytest.mark.parametrize("line", BAD)
def test_bad_features_are_named(line: str) -> None:
    for distance in (frechet_distance, kernel_distance):
        with pytest.raises(UserError, match=line):
            distance(*BAD[line])
