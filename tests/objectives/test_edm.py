"""EDM against identities: the exact oracle as the network, the published schedule, a fine ODE solution."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.integrate import solve_ivp

from twoclocks import models, oracles
from twoclocks.objectives import EDM, sample
from twoclocks.objectives.edm import Denoiser
from twoclocks.rules import Parity
from twoclocks.testing import check_objective
from twoclocks.testing.contracts import randomised


def test_contract() -> None:
    check_objective(EDM(sampler_steps=6), models.create("dit", width=32, depth=2, heads=2), (1, 3, 4), 2)


def test_schedule_is_the_published_one() -> None:
    sigmas = EDM().sampler_sigmas()
    assert len(sigmas) == 36 and sigmas[0] == 80 and sigmas[34] == pytest.approx(0.002) and sigmas[35] == 0
    for i in (1, 7, 20, 33):
        expected = (80 ** (1 / 7) + i / 34 * (0.002 ** (1 / 7) - 80 ** (1 / 7))) ** 7
        assert float(sigmas[i]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.002, 0.1, 0.5, 2.0, 80.0])
def test_preconditioning_is_the_published_one(sigma: float) -> None:
    """Each coefficient is read off by probing with networks that return constants or their input."""
    edm, y = EDM(sigma_data=0.5), torch.tensor([[1.7, -0.4]], dtype=torch.float64)
    s = torch.tensor([sigma], dtype=torch.float64)
    skip = edm.denoiser(lambda x, c: torch.zeros_like(x))(y, s)
    assert torch.allclose(skip, y * 0.25 / (sigma**2 + 0.25))
    ones = edm.denoiser(lambda x, c: torch.ones_like(x))(y, s) - skip
    assert torch.allclose(ones, torch.full_like(y, sigma * 0.5 / math.sqrt(sigma**2 + 0.25)))
    seen: list[torch.Tensor] = []
    edm.denoiser(lambda x, c: seen.extend([x, c]) or x)(y, s)  # type: ignore[func-returns-value]
    assert torch.allclose(seen[0], y / math.sqrt(sigma**2 + 0.25))
    assert float(seen[1]) == pytest.approx(math.log(sigma) / 4)


def test_loss_weight_and_noise_distribution() -> None:
    """A network that returns zero has D = c_skip·y, so its expected loss is known in closed form for every σ."""
    edm = EDM(log_sigma_mean=0.3, log_sigma_std=0.0001)
    sigma = math.exp(0.3)
    clean = torch.ones(200_000, 4, dtype=torch.float64)
    loss = edm.loss(lambda x, c: torch.zeros_like(x), clean, torch.Generator().manual_seed(0)).mean()
    skip = 0.25 / (sigma**2 + 0.25)
    expected = (sigma**2 + 0.25) / (sigma * 0.5) ** 2 * ((skip - 1) ** 2 + skip**2 * sigma**2)
    assert float(loss) == pytest.approx(expected, rel=5e-3)


def test_log_sigma_is_normal_with_the_given_moments() -> None:
    seen: list[torch.Tensor] = []

    def network(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        seen.append(4 * label)
        return torch.zeros_like(x)

    EDM().loss(network, torch.zeros(100_000, 1), torch.Generator().manual_seed(1))
    assert float(seen[0].mean()) == pytest.approx(-1.2, abs=0.02)
    assert float(seen[0].std()) == pytest.approx(1.2, abs=0.02)


@pytest.mark.parametrize("sigma", [0.002, 0.5, 80.0])
def test_a_denoiser_survives_the_way_through_its_raw_network(sigma: float) -> None:
    edm, oracle = EDM(sigma_data=0.7), oracles.rule_denoiser(Parity(length=12, group=3))
    y, s = torch.randn(5, 12, dtype=torch.float64), torch.full((5,), sigma, dtype=torch.float64)
    assert torch.allclose(edm.denoiser(edm.network_of(oracle))(y, s), oracle(y, s), atol=1e-9)


@pytest.mark.parametrize("sigma", [0.5, 0.9, 1.5])
def test_no_denoiser_beats_the_rule_oracle_on_rule_samples(sigma: float) -> None:
    """The oracle's error is the floor: the cube's is above it, and so is the oracle moved a little in any direction."""
    rule = Parity(length=12, group=3)
    clean = 2.0 * rule.sample(40_000, seed=0).double() - 1
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    level = torch.full((len(clean),), sigma, dtype=torch.float64)
    best = oracles.rule_denoiser(rule)

    def error(denoiser: Denoiser) -> torch.Tensor:
        return EDM.denoising_error(denoiser, clean, level, noise)

    floor = error(best)
    for worse in (
        oracles.cube_denoiser(),
        lambda y, s: 1.05 * best(y, s),
        lambda y, s: 0.95 * best(y, s),
        lambda y, s: best(y, 1.2 * s),
    ):
        excess = error(worse) - floor
        assert float(excess.mean()) > 3 * float(excess.std()) / math.sqrt(len(excess))


def test_loss_of_the_oracle_equals_its_own_posterior_variance() -> None:
    """For ±1 data E‖D − x‖² = E[1 − D²]: the loss at the floor, from the other side of the identity."""
    rule, sigma = Parity(length=12, group=3), 0.8
    clean = 2.0 * rule.sample(100_000, seed=0).double() - 1
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    level = torch.full((len(clean),), sigma, dtype=torch.float64)
    oracle = oracles.rule_denoiser(rule)
    error = EDM.denoising_error(oracle, clean, level, noise)
    variance = 1 - oracle(clean + sigma * noise, sigma).square().mean(dim=1)
    difference = error - variance
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / math.sqrt(len(clean))


def test_heun_follows_a_fine_ode_solution_and_converges_at_second_order() -> None:
    """From σ = 80 to 0.002 along dx/dσ = (x − D)/σ with the rule oracle, against an adaptive eighth-order solver."""
    rule = Parity(length=6, group=3)
    oracle = oracles.rule_denoiser(rule)
    noise = torch.randn(12, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def slope(sigma: float, x: object) -> object:
        y = torch.as_tensor(x, dtype=torch.float64).reshape(12, 6)
        return ((y - oracle(y, sigma)) / sigma).flatten().numpy()

    exact = solve_ivp(slope, (80, 0.5), (80 * noise).flatten().numpy(), method="DOP853", rtol=1e-11, atol=1e-11)
    end = torch.from_numpy(exact.y[:, -1]).reshape(12, 6)
    errors = []
    for steps in (40, 80, 160):
        edm = EDM(sampler_steps=steps, sigma_min=0.5)
        x = 80 * noise
        for level in range(steps - 1):  # the last step, to zero, is left out: the ODE is compared at sigma_min
            x = edm.denoising_step(oracle, x, level)
        errors.append(float((x - end).abs().max()))
    assert errors[0] < 0.05
    assert 3 < errors[0] / errors[1] < 5.5 and 3 < errors[1] / errors[2] < 5.5, errors


def test_sampling_is_deterministic_for_each_initial_noise() -> None:
    edm = EDM(sampler_steps=8)
    network = randomised(models.create("dit", width=32, depth=1, heads=2), (1, 3, 4), 2)
    noise = edm.draw_noise(5, (1, 3, 4), torch.Generator().manual_seed(0))
    other = randomised(models.create("dit", width=32, depth=2, heads=2), (1, 3, 4), 2)
    assert not torch.allclose(sample(edm, network, noise), sample(edm, other, noise), atol=1e-2)
    assert torch.equal(sample(edm, network, noise), sample(edm, network, noise))
    assert torch.allclose(sample(edm, network, noise)[3:4], sample(edm, network, noise[3:4]), atol=1e-5)
