"""The predicted losses: the operator against autograd, the Krylov space against plain steps, both against a network."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from twoclocks import models, objectives
from twoclocks.data.points import gaussian_points
from twoclocks.oracles.kernel_descent import CloudKernel, Coefficients, KernelDescent, noise_target
from twoclocks.oracles.ntk import kernel_of
from twoclocks.training.optimizer import rate_groups

SIGMA = math.sqrt(0.032)


def dense(kernel: CloudKernel) -> Tensor:
    """The operator's matrix, column by column."""
    points, dimension = kernel.y.shape
    columns = torch.eye(points * (dimension + 1), dtype=torch.float64)
    return kernel(Coefficients.of(columns, points)).flat()


def test_the_operator_holds_the_derivatives_of_the_kernel() -> None:
    """Blocks [Θ, σ∂Θ/∂y; σ∂Θ/∂x, σ²∂²Θ/∂x∂y] of Θ at noisy lengths, by autograd, for two different sets of points."""
    x, y, sigma, d = gaussian_points(3, 5, 0), gaussian_points(4, 5, 1), 0.6, 5

    def smooth(left: Tensor, right: Tensor) -> Tensor:
        return kernel_of(left @ left + sigma**2 * d, right @ right + sigma**2 * d, left @ right, d)

    found = dense(CloudKernel(x, y, sigma)).reshape(3, d + 1, 4, d + 1)
    for i in range(3):
        for j in range(4):
            by_x, by_y = torch.func.grad(smooth, 0)(x[i], y[j]), torch.func.grad(smooth, 1)(x[i], y[j])
            mixed = torch.func.jacfwd(torch.func.grad(smooth, 0), 1)(x[i], y[j])
            block = torch.cat([smooth(x[i], y[j]).reshape(1, 1), sigma * by_y[None]], dim=1)
            block = torch.cat([block, torch.cat([sigma * by_x[:, None], sigma**2 * mixed], dim=1)])
            assert torch.allclose(found[i, :, j], block / 4, rtol=1e-10), (i, j)


def test_losses_are_those_of_plain_steps() -> None:
    train, held_out, rate = gaussian_points(6, 5, 0), gaussian_points(9, 5, 1), 3.0
    inside, outside = (dense(CloudKernel(x, train, SIGMA)) for x in (train, held_out))
    error, seen = noise_target(6, 5, 5), torch.zeros(9 * 6, 5, dtype=torch.float64)
    found = KernelDescent(train, held_out, SIGMA, outputs=5).losses(rate, range(301))
    for step in range(301):
        assert found.train[step] == pytest.approx(float(error.square().sum()) / 30, rel=1e-6)
        missed = noise_target(9, 5, 5) - seen
        assert found.held_out[step] == pytest.approx(float(missed.square().sum()) / 45, rel=1e-6)
        seen = seen + 2 * rate / 5 * outside @ error
        error = error - 2 * rate / 5 * inside @ error
    assert found.train[0] == found.held_out[0] == pytest.approx(1)


def test_few_krylov_vectors_and_few_outputs_suffice() -> None:
    points = gaussian_points(80, 64, 0)
    steps = [10, 100, 1000, 3000]
    few, many = (
        KernelDescent(points[:48], points[48:], SIGMA, outputs=4, vectors=vectors).losses(40.0, steps)
        for vectors in (60, 160)
    )
    assert np.abs(few.train - many.train).max() < 1e-3 and np.abs(few.held_out / many.held_out - 1).max() < 0.01


def test_the_onset_is_where_the_gap_crosses() -> None:
    points = gaussian_points(80, 64, 0)
    descent = KernelDescent(points[:48], points[48:], SIGMA, vectors=60)
    onset = descent.gap_onset(40.0, 0.1)
    assert descent.losses(40.0, [onset]).gap[0] == pytest.approx(0.1, rel=0.02)
    assert descent.gap_onset(20.0, 0.1) == pytest.approx(2 * onset, rel=0.02)
    assert descent.gap_onset(40.0, 1e9) == math.inf


def test_a_real_network_follows_the_prediction() -> None:
    """No parameter is fitted: 1,024 units, 32 points in 64 dimensions, gradient descent with fresh noise."""
    points, rate, n = gaussian_points(1100, 64, 0), 40.0, 32
    torch.manual_seed(0)
    network = models.create("mlp", width=1024).build((64, 1, 1), 2)
    objective, optimizer = objectives.FixedNoise(sigma=SIGMA), torch.optim.SGD(rate_groups(network, "sgd", rate))
    train, held_out = (part.float()[:, :, None, None] for part in (points[:n], points[n : n + 1024]))
    steps, gaps, losses = [100, 200, 300, 400], [], []
    for step in range(1, steps[-1] + 1):
        optimizer.zero_grad()
        objective.loss(network, train, torch.Generator().manual_seed(step)).mean().backward()
        optimizer.step()
        if step in steps:
            with torch.no_grad():
                inside, outside = (
                    objective.loss(network, rows, torch.Generator().manual_seed(0))
                    for rows in (train.repeat(32, 1, 1, 1), held_out)
                )
            gaps.append(float((outside - inside).mean()))
            losses.append(float(inside.mean()))
    expected = KernelDescent(points[:n], points[n : n + 128], SIGMA, outputs=32, vectors=60).losses(rate, steps)
    assert np.array(losses) == pytest.approx(expected.train, abs=0.03)
    assert np.array(gaps) == pytest.approx(expected.gap, rel=0.12, abs=0.01)
