"""Precision, recall, density, coverage and authenticity: a slow version, expectations, generators of known kind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from twoclocks.core.errors import UserError
from twoclocks.evaluation.quality import authenticity, density_coverage, manifolds, precision_recall


def normal(n: int, d: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def slow(real: Tensor, fake: Tensor, k: int) -> dict[str, float]:
    """All numbers by their definitions, from Python floats."""

    def radius(points: list[list[float]], i: int) -> float:
        return sorted(math.dist(points[i], other) for j, other in enumerate(points) if j != i)[k - 1]

    x, y = real.double().tolist(), fake.double().tolist()
    radii, reach = [radius(x, i) for i in range(len(x))], [radius(y, i) for i in range(len(y))]
    inside = [[math.dist(a, b) < radii[i] for b in y] for i, a in enumerate(x)]
    nearest = [min(range(len(x)), key=lambda i: math.dist(x[i], b)) for b in y]
    closest = [min(math.dist(x[i], a) for j, a in enumerate(x) if j != i) for i in range(len(x))]
    return {
        "precision": sum(any(row[j] for row in inside) for j in range(len(y))) / len(y),
        "recall": sum(any(math.dist(a, b) < reach[j] for j, b in enumerate(y)) for a in x) / len(x),
        "density": sum(map(sum, inside)) / (k * len(y)),
        "coverage": sum(map(any, inside)) / len(x),
        "authenticity": sum(math.dist(x[i], b) > closest[i] for i, b in zip(nearest, y, strict=True)) / len(y),
    }


def fast(real: Tensor, fake: Tensor, k: int = 5) -> dict[str, float]:
    precise, recalled = precision_recall(real, fake, k)
    density, covered = density_coverage(real, fake, k)
    values = (precise, recalled, density, covered, authenticity(real, fake))
    names = ("precision", "recall", "density", "coverage", "authenticity")
    return {name: float(value.double().mean()) for name, value in zip(names, values, strict=True)}


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("pairs", [1 << 24, 200])  # in one tile, and a few rows at a time
def test_neighbours_agree_with_the_definitions(k: int, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifolds, "PAIRS", pairs)
    for seed in range(3):
        real, fake = normal(60, seed=seed), 0.8 * normal(45, seed=seed + 10) + 0.4
        assert fast(real, fake, k) == pytest.approx(slow(real, fake, k), abs=1e-12)


def test_a_perfect_generator_has_the_expected_density_and_coverage() -> None:
    found = [fast(normal(400, 4, seed), normal(400, 4, seed + 100)) for seed in range(20)]
    mean = {name: sum(row[name] for row in found) / 20 for name in found[0]}
    assert mean["density"] == pytest.approx(1, abs=0.03) and mean["coverage"] == pytest.approx(1 - 2**-5, abs=0.01)
    assert abs(mean["precision"] - mean["recall"]) < 0.03 and mean["precision"] > 0.8
    assert 0.3 < mean["authenticity"] < 0.9


def test_a_copying_generator_is_perfect_but_for_authenticity() -> None:
    real = normal(300, 4)
    for copies in (real, real[torch.randperm(300, generator=torch.Generator().manual_seed(1))]):
        found = fast(real, copies)
        assert found == {"precision": 1, "recall": 1, "density": 1, "coverage": 1, "authenticity": 0}
    close = real + 1e-3 * normal(300, 4, 1)
    assert authenticity(real, close).double().mean() < 0.05
    twice = torch.cat([real, real])  # a training set in which every image is there twice
    assert not authenticity(twice, real).any()


def test_a_collapsed_generator_is_precise_and_recalls_nothing() -> None:
    real = normal(300, 4)
    found = fast(real, torch.zeros(300, 4))
    assert found["precision"] == 1 and found["recall"] == 0 and found["coverage"] < 0.1 < 1 < found["density"]
    some = normal(30, 4, 1).repeat(10, 1)  # thirty images only
    assert fast(real, some)["coverage"] < 0.5 * fast(real, normal(300, 4, 2))["coverage"]


def test_noise_far_away_is_worthless_but_authentic() -> None:
    found = fast(normal(100, 4), 10 + normal(100, 4, 1))
    assert found == {"precision": 0, "recall": 0, "density": 0, "coverage": 0, "authenticity": 1}


def test_too_few_rows_are_named() -> None:
    for function, line in (
        (precision_recall, "fake: 5 rows are not enough; use at least 6"),
        (density_coverage, "fake: 0 rows are not enough; use at least 1"),
        (authenticity, "fake: features have 3 dimensions, those of real 4"),
    ):
        fake = {precision_recall: normal(5, 4), density_coverage: normal(0, 4), authenticity: normal(5, 3)}[function]
        with pytest.raises(UserError, match=line):
            function(normal(9, 4), fake)
    with pytest.raises(UserError, match="real: 1 rows are not enough; use at least 2"):
        authenticity(normal(1), normal(9))
