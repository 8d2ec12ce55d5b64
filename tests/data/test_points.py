"""Gaussian points as codes of symbols: reproducible, decoded to the nearest point, and decoded fast."""

from __future__ import annotations

import time

import pytest
import torch

from twoclocks.data.encodings import Space
from twoclocks.data.points import GaussianPoints
from twoclocks.oracles import empirical_denoiser
from twoclocks.rules import Free


def test_points_are_standard_normal_and_depend_on_the_seed_alone() -> None:
    codes = GaussianPoints(dimension=16).codes(4096)
    assert codes.dtype == torch.float64 and codes.shape == (4096, 16)
    assert float(codes.mean(dim=0).abs().max()) < 0.08
    assert torch.allclose(codes.T @ codes / 4096, torch.eye(16, dtype=torch.float64), atol=0.1)
    assert torch.equal(GaussianPoints(dimension=16).codes(100), codes[:100])
    assert not torch.equal(GaussianPoints(dimension=16, seed=1).codes(4096), codes)


def test_points_are_drawn_once() -> None:
    encoding = GaussianPoints(dimension=3)
    assert encoding.codes(50) is GaussianPoints(dimension=3).codes(50)


def test_a_sample_is_its_nearest_point() -> None:
    """Against all distances, one by one, for several entries per sample."""
    encoding, space = GaussianPoints(dimension=5), Space((3,), symbols=40)
    x = torch.randn(30, 5, 1, 3, generator=torch.Generator().manual_seed(1))
    found, codes = encoding.decode(space, x), encoding.codes(40).float()
    for row, sample in enumerate(x):
        for entry in range(3):
            distances = (codes - sample[:, 0, entry]).norm(dim=1)
            assert int(found.symbols[row, entry]) == int(distances.argmin())
        residual = sample[:, 0].T - codes[found.symbols[row]]
        assert float(found.distance[row]) == pytest.approx(float(residual.abs().max()))


def test_unit_is_half_the_smallest_distance() -> None:
    codes = GaussianPoints(dimension=4).codes(2000)
    apart = torch.cdist(codes, codes).fill_diagonal_(torch.inf)
    assert GaussianPoints(dimension=4).unit(Space((1,), 2000)) == pytest.approx(float(apart.min()) / 2, rel=1e-3)


def test_decoding_against_thousands_of_points_is_fast() -> None:
    encoding, rule = GaussianPoints(dimension=64), Free(alphabet=16_384)
    x = torch.randn(2048, 64, 1, 1)
    encoding.decode(rule, x)
    start = time.perf_counter()
    encoding.decode(rule, x)
    assert time.perf_counter() - start < 2.0  # about 0.2 s on a core of its own


def test_the_empirical_denoiser_of_points_is_the_softmax_over_them() -> None:
    """The oracle's result against the formula written out."""
    encoding, rule, sigma = GaussianPoints(dimension=6), Free(alphabet=100), 0.8
    train = rule.sample(7, seed=0)
    y = torch.randn(9, 6, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    points = encoding.codes(100)[train[:, 0]]
    weights = (-(y.flatten(1)[:, None] - points).square().sum(dim=2) / (2 * sigma**2)).softmax(dim=1)
    assert torch.allclose(empirical_denoiser(train, rule, encoding)(y, sigma).flatten(1), weights @ points)
