"""The tangent kernel against Jacobians of a wide network, its eigenvalues against P2's formulas and real descent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from twoclocks import models, objectives
from twoclocks.data.points import gaussian_points
from twoclocks.oracles.ntk import (
    decay_steps,
    largest_eigenvalue,
    largest_rate,
    memory_eigenvalue,
    paired_kernel,
    tangent_kernel,
)
from twoclocks.training.optimizer import rate_groups


def on_sphere(points: int, dimension: int) -> Tensor:
    rows = gaussian_points(points, dimension, 3)
    return rows * math.sqrt(dimension) / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("limit", ["ntk", "mean_field"])
def test_the_jacobians_of_a_wide_network_have_this_kernel(limit: str) -> None:
    """Entry by entry, all outputs: equal outputs have Θ, different ones have 0; mean-field's rates make up for 1/m."""
    torch.manual_seed(0)
    network = models.create("mlp", width=1 << 16, limit=limit).build((4, 1, 1), 2)
    x = gaussian_points(5, 4, 0)
    rows = []
    for point in x.float():
        for output in network(point.reshape(1, 4, 1, 1), torch.zeros(1)).flatten():
            gradients = torch.autograd.grad(output, list(network.parameters()), retain_graph=True)
            rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    jacobian = torch.stack(rows).double()
    found = jacobian @ jacobian.T * network.learning_rates("sgd")["hidden.weight"]  # type: ignore[operator]
    expected = torch.kron(tangent_kernel(x, x), torch.eye(4, dtype=torch.float64))
    assert float((found - expected).norm() / expected.norm()) < 0.03


def test_known_angles() -> None:
    """Equal: ‖x‖²/d; at right angles: ‖x‖‖y‖/(2πd); opposite: 0."""
    x = torch.tensor([[3.0, 4.0]])
    y = torch.tensor([[3.0, 4.0], [-8.0, 6.0], [-3.0, -4.0]])
    assert tangent_kernel(x, y)[0].tolist() == pytest.approx([12.5, 25 / (2 * math.pi), 0], abs=1e-12)
    assert torch.allclose(tangent_kernel(y, y).diagonal(), paired_kernel(y.double(), y.double()))


def test_memory_s_eigenvalue_is_the_paper_s_in_the_limit_of_low_noise() -> None:
    """Eq. (22), R = 1, ν = 1, Θ = 1 − r/(2π√d): λ = σ/P · Γ((d + 1)/2)/Γ(d/2) / (2π d√d), up to orders of 1/d."""
    for dimension in (64, 256):
        gammas = math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
        expected = 0.001 / 32 * gammas / (2 * math.pi * dimension**1.5)
        found = memory_eigenvalue(on_sphere(32, dimension), 0.001, draws=400)
        assert found.error < 0.02 * found.value
        assert found.value == pytest.approx(expected, rel=4 / dimension + 4 * found.error / found.value)


def test_memory_s_eigenvalue_grows_with_sigma_and_falls_with_the_points() -> None:
    """λ ∝ σ/P where σ is small against the part of Θ that is smooth; there that part, ∝ σ², takes over."""
    points = on_sphere(64, 64)
    small = [memory_eigenvalue(points, sigma, draws=300).value for sigma in (0.0005, 0.001, 0.002, 0.004)]
    assert np.polyfit(np.log([0.5, 1, 2, 4]), np.log(small), 1)[0] == pytest.approx(1, abs=0.03)
    half = memory_eigenvalue(points[:32], 0.001, draws=600)
    assert half.value / small[1] == pytest.approx(2, rel=0.05)
    large = [memory_eigenvalue(points, sigma, draws=100).value for sigma in (1.0, 2.0)]
    assert math.log2(large[1] / large[0]) < 1.7 and large[0] / small[-1] > 2 * 250  # more than σ alone would give


def test_the_paper_s_dependence_on_dimension() -> None:
    """Eq. (39): τ ∝ d^(1 − ν/2)/C(d) with C(d) = 1/(2π√d), so λ ∝ 1/d, for points at a distance of √d from zero."""
    found = [memory_eigenvalue(on_sphere(16, d), 0.001, draws=600).value for d in (32, 128, 512)]
    assert np.polyfit(np.log([32, 128, 512]), np.log(found), 1)[0] == pytest.approx(-1, abs=0.03)


@pytest.mark.parametrize(("share", "stable"), [(0.85, True), (1.2, False)])
def test_the_largest_eigenvalue_bounds_the_rate_of_real_descent(share: float, stable: bool) -> None:
    """The constants 2 and 1/d of the loss occur in this bound, as in ``decay_steps``."""
    points, sigma = gaussian_points(32, 16, 0), 0.2
    rate = share * largest_rate(largest_eigenvalue(points, sigma, draws=16), 16)
    torch.manual_seed(0)
    network = models.create("mlp", width=4096).build((16, 1, 1), 2)
    objective, optimizer = objectives.FixedNoise(sigma=sigma), torch.optim.SGD(rate_groups(network, "sgd", rate))
    clean = points.float().reshape(32, 16, 1, 1).repeat(8, 1, 1, 1)
    highest = 0.0
    for step in range(40):
        optimizer.zero_grad()
        loss = objective.loss(network, clean, torch.Generator().manual_seed(step)).mean()
        loss.backward()
        optimizer.step()
        highest = max(highest, loss.item())
    assert (highest < 1.1) == stable, highest
    assert decay_steps(largest_eigenvalue(points, sigma), rate, 16) == pytest.approx(0.5 / share, rel=0.05)
