"""Gaussian diffusion with discrete levels: exact identities, exact Gaussian targets, and diffusers' schedulers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from twoclocks import models, oracles
from twoclocks.core.errors import SettingError
from twoclocks.objectives import sample
from twoclocks.objectives.ddpm import DDPM, Walk, bin_nll
from twoclocks.objectives.gaussian_levels import betas, gaussian_levels
from twoclocks.objectives.randomness import draw_seeds, normals
from twoclocks.rules import Parity
from twoclocks.testing import check_objective

CPU = torch.device("cpu")
UNET = {"width": 8, "multipliers": [1, 2], "blocks": 1, "attention": [], "heads": 2}
SCHEDULES = ["cosine", "linear"]


@pytest.mark.parametrize("change", [{}, {"eta": 0.5}, {"sampler": "ancestral"}, {"schedule": "linear"}], ids=str)
@pytest.mark.parametrize("variance", ["fixed", "learned"])
def test_contract(variance: str, change: dict[str, Any]) -> None:
    model = models.create("unet2d", **UNET, variance=variance == "learned")
    check_objective(DDPM(sampler_levels=6, variance=variance, **change), model, (1, 4, 4), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_marginals_are_those_of_the_single_steps(schedule: str) -> None:
    """x_t = √(1 − β_t) x_{t−1} + √β_t n, level by level: the factor of x_0 and the variance of the noise."""
    beta, table = betas(schedule, 50), gaussian_levels(schedule, 50, CPU)
    factor, variance = 1.0, 0.0
    for level, step in enumerate(beta.tolist()):
        factor, variance = factor * math.sqrt(1 - step), variance * (1 - step) + step
        moments = DDPM(noise_levels=50, schedule=schedule, sampler_levels=5)  # type: ignore[arg-type]
        at, one = torch.tensor([level]), torch.ones(1, 1, dtype=torch.float64)
        assert float(moments.corrupt(one, at, 0 * one)) == pytest.approx(factor, rel=1e-9)
        assert float(moments.corrupt(0 * one, at, one)) ** 2 == pytest.approx(variance, rel=1e-9)
        assert float(table.sigma[level]) == pytest.approx(math.sqrt(variance) / factor, rel=1e-9)


def test_schedules_are_the_published_ones() -> None:
    linear = betas("linear", 1000)
    assert float(linear[0]) == pytest.approx(1e-4) and float(linear[-1]) == pytest.approx(0.02)
    assert float(betas("linear", 4000)[-1]) == pytest.approx(0.005)  # the same noise in total
    table = gaussian_levels("cosine", 4000, CPU)
    for level in (0, 1000, 3000, 3998):
        time = (level + 1) / 4000
        share = math.cos((time + 0.008) / 1.008 * math.pi / 2) ** 2 / math.cos(0.008 / 1.008 * math.pi / 2) ** 2
        assert float(table.alpha_bar[level]) == pytest.approx(share, rel=1e-8)
    assert float(betas("cosine", 4000)[-1]) == 0.999


def reverse_moments(objective: DDPM, network: Any, y: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of a random step, read off from two draws with known noise."""
    seeds = [draw_seeds(len(y), tuple(y.shape[1:]), torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    one, two = (objective.finish(objective.reverse_step(network, Walk(y, each), step)) for each in seeds)
    noise_one, noise_two = (normals(each, step + 1).double() for each in seeds)
    spread = (one - two) / (noise_one - noise_two)
    return one - spread * noise_one, spread


@pytest.mark.parametrize("sampler_levels", [40, 7])
def test_ancestral_steps_are_draws_from_the_posterior_by_bayes(sampler_levels: int) -> None:
    """With x_0 known: N(√ᾱ' x_0, 1 − ᾱ') times the likelihood of x_t, whose product is found by adding precisions."""
    ddpm = DDPM(noise_levels=40, sampler="ancestral", sampler_levels=sampler_levels, clip=False)
    known, times = 0.3, ddpm.sampler_times()
    network = ddpm.network_of(lambda y, sigma: torch.full_like(y, known))
    alpha_bar = gaussian_levels("cosine", 40, CPU).alpha_bar[times].tolist()
    for step in range(sampler_levels - 1):
        now, after = alpha_bar[step], alpha_bar[step + 1]
        x, alpha = torch.tensor([[0.7], [-1.1]], dtype=torch.float64), now / after
        prior, likelihood = 1 / (1 - after), alpha / (1 - alpha)
        mean = (prior * math.sqrt(after) * known + likelihood * x / math.sqrt(alpha)) / (prior + likelihood)
        found, spread = reverse_moments(ddpm, network, x / math.sqrt(now), step)
        assert torch.allclose(found * math.sqrt(after), mean, atol=1e-6)
        assert torch.allclose(spread**2 * after, torch.full_like(x, 1 / (prior + likelihood)), rtol=1e-5)


def gaussian_moments(ddpm: DDPM, mean: float, std: float, count: int = 3_000) -> tuple[float, float]:
    """Mean and standard deviation of samples with the exact denoiser of N(mean, std²) as the network."""
    network = ddpm.network_of(lambda y, s: (std**2 * y + s[:, None] ** 2 * mean) / (std**2 + s[:, None] ** 2))
    noise = ddpm.draw_noise(count, (1,), torch.Generator().manual_seed(0))
    found = sample(ddpm, network, noise, chunk=count).double()
    return float(found.mean()), float(found.std())


def test_samples_of_a_gaussian_have_its_mean_and_variance() -> None:
    mean, std, error = 0.4, 0.5, 4 * 0.5 / math.sqrt(3_000)
    for change in ({}, {"sampler": "ancestral"}):
        found = gaussian_moments(DDPM(sampler_levels=4000, clip=False, **change), mean, std)  # type: ignore[arg-type]
        assert found == pytest.approx((mean, std), abs=error), change
    found = gaussian_moments(DDPM(sampler_levels=250, clip=False), mean, std)
    assert found == pytest.approx((mean, std), abs=2 * error)


@pytest.mark.parametrize(("change", "sampler_levels"), [({}, 20), ({"eta": 0.7}, 20), ({"sampler": "ancestral"}, 20)])
def test_respaced_samples_of_a_gaussian_have_the_moments_of_the_linear_recursion(
    change: dict[str, Any], sampler_levels: int
) -> None:
    """With few levels the variance is too small by a known amount: every step is linear, as in DDIM's paper."""
    ddpm = DDPM(sampler_levels=sampler_levels, clip=False, **change)
    alpha_bar = [*gaussian_levels("cosine", 4000, CPU).alpha_bar[ddpm.sampler_times()].tolist(), 1.0]
    mean, std = 0.4, 0.5
    average, variance = 0.0, 1.0  # of x
    eta = 1.0 if ddpm.sampler == "ancestral" else ddpm.eta
    for now, after in pairwise(alpha_bar):
        gain = math.sqrt(now) * std**2 / (now * std**2 + 1 - now)  # x̂_0 = mean + gain·(x − √ᾱ mean)
        added = eta**2 * (1 - after) / (1 - now) * (1 - now / after)
        turn = math.sqrt(1 - after - added) / math.sqrt(1 - now)
        slope = math.sqrt(after) * gain + turn * (1 - math.sqrt(now) * gain)
        fixed = mean * (1 - math.sqrt(now) * gain)  # x̂_0 at x = 0
        average = slope * average + math.sqrt(after) * fixed - turn * math.sqrt(now) * fixed
        variance = slope**2 * variance + added
    error = 4 * std / math.sqrt(3_000)
    assert gaussian_moments(ddpm, mean, std) == pytest.approx((average, math.sqrt(variance)), abs=error)


@pytest.mark.parametrize("change", [{}, {"sampler": "ancestral"}], ids=str)
def test_samples_with_the_oracle_of_a_rule_obey_it(change: dict[str, Any]) -> None:
    rule, ddpm = Parity(length=6, group=3), DDPM(sampler_levels=100, **change)
    network = ddpm.network_of(oracles.rule_denoiser(rule))
    found = sample(ddpm, network, ddpm.draw_noise(500, (6,), torch.Generator().manual_seed(0)))
    assert bool(rule.is_valid((found > 0).long()).all()) and float((found.abs() - 1).abs().max()) < 1e-3
    counts = torch.unique(found > 0, dim=0, return_counts=True)[1]
    assert len(counts) == rule.count() and float(counts.max()) < 2 * 500 / rule.count()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_terms_of_the_bound_are_the_divergence_by_quadrature(schedule: str) -> None:
    ddpm = DDPM(noise_levels=100, schedule=schedule, variance="learned", sampler_levels=5)  # type: ignore[arg-type]
    beta, alpha_bar = betas(schedule, 100), gaussian_levels(schedule, 100, CPU).alpha_bar
    for level, between, predicted in ((1, -1.0, 0.2), (10, 0.3, -0.6), (60, 1.0, 1.4), (98, 0.0, 0.5)):
        clean, noise = 0.35, 0.8
        now, before, step = (float(part) for part in (alpha_bar[level], alpha_bar[level - 1], beta[level]))
        x = math.sqrt(now) * clean + math.sqrt(1 - now) * noise
        guess = (x - math.sqrt(1 - now) * predicted) / math.sqrt(now)
        small = (1 - before) / (1 - now) * step

        def posterior_mean(
            start: float, now: float = now, before: float = before, step: float = step, x: float = x
        ) -> float:
            return (math.sqrt(before) * step * start + math.sqrt(1 - step) * (1 - before) * x) / (1 - now)

        learned = math.exp((between + 1) / 2 * math.log(step) + (1 - between) / 2 * math.log(small))
        centre, width = posterior_mean(clean), math.sqrt(small)
        grid = torch.linspace(centre - 10 * width, centre + 10 * width, 20_001, dtype=torch.float64).numpy()
        q = norm(centre, width)
        p = norm(posterior_mean(guess), math.sqrt(learned))
        exact = float((q.pdf(grid) * (q.logpdf(grid) - p.logpdf(grid))).sum() * (grid[1] - grid[0])) / math.log(2)
        one = torch.ones(1, 1, dtype=torch.float64)
        found = ddpm.bound_terms(clean * one, torch.tensor([level]), (noise - predicted) * one, between * one)
        assert float(found) == pytest.approx(exact, rel=1e-6)


def test_the_first_term_is_the_probability_of_a_bin() -> None:
    centres = torch.linspace(-1, 1, 16, dtype=torch.float64)[:, None]
    mean, log_variance = torch.tensor(0.21, dtype=torch.float64), torch.tensor(math.log(0.09))
    found = torch.exp(-bin_nll(centres, mean, log_variance, 16))
    assert float(found.sum()) == pytest.approx(1)
    edges = norm(0.21, 0.3).cdf([-1 + 2 / 15 * (k + 0.5) for k in range(15)])
    assert float(found[0]) == pytest.approx(edges[0], rel=1e-6)
    assert found[5].item() == pytest.approx(edges[5] - edges[4], rel=1e-6)
    assert found[15].item() == pytest.approx(1 - edges[14], rel=1e-6)
    ddpm = DDPM(noise_levels=100, variance="learned", sampler_levels=5, bins=16)
    table, one = gaussian_levels("cosine", 100, CPU), torch.ones(1, 1, dtype=torch.float64)
    term = float(ddpm.bound_terms(0.2 * one, torch.tensor([0]), 0.5 * one, one)) * math.log(2)
    log_beta = torch.tensor(math.log(float(betas("cosine", 100)[0])))
    expected = bin_nll(0.2 * one, 0.2 * one + 0.5 * table.sigma[0], log_beta, 16)
    assert term == pytest.approx(float(expected), rel=1e-6)
    beta = betas("cosine", 100)
    small = beta[0] / (1 - (1 - beta[0]) * (1 - beta[1])) * beta[1]  # β̃ of the second level, as β̃ of the first is 0
    term = float(ddpm.bound_terms(0.2 * one, torch.tensor([0]), 0.5 * one, -one)) * math.log(2)
    expected = bin_nll(0.2 * one, 0.2 * one + 0.5 * table.sigma[0], small.log(), 16)
    assert term == pytest.approx(float(expected), rel=1e-6)


def test_the_bound_trains_the_variance_alone() -> None:
    """iDDPM's stop-gradient: channels of the noise have the gradient of L_simple, those of v that of λ·T·L_t."""
    clean, levels = torch.rand(4, 1, 2, 2).double() - 0.5, torch.tensor([0, 5, 50, 99])
    noise = torch.randn(4, 1, 2, 2).double()
    answer = torch.randn(4, 2, 2, 2).double().requires_grad_()
    shared = {"noise_levels": 100, "sampler_levels": 5}
    hybrid = DDPM(variance="learned", **shared)  # type: ignore[arg-type]
    hybrid.loss_given(lambda x, c: answer, clean, levels, noise).sum().backward()
    assert answer.grad is not None
    simple = 2 * (answer.detach()[:, :1] - noise) / 4
    assert torch.allclose(answer.grad[:, :1], simple)
    v = answer.detach()[:, 1:].requires_grad_()
    terms = hybrid.bound_terms(clean, levels, noise - answer.detach()[:, :1], v)
    (0.001 * 100 * terms.sum()).backward()
    assert v.grad is not None and torch.allclose(answer.grad[:, 1:], v.grad) and bool((v.grad[1:] != 0).all())


def test_the_best_v_is_the_variance_of_the_reverse_step() -> None:
    """E[L_t] over the posterior of the noise has its minimum where the variance is that of x_{t−1} given x_t."""
    ddpm = DDPM(noise_levels=100, variance="learned", sampler_levels=5)
    table, std, level = gaussian_levels("cosine", 100, CPU), 0.5, 20
    now, before = (float(table.sigma[at]) ** 2 for at in (level, level - 1))
    left = std**2 * now / (std**2 + now)  # variance of x_0 given y
    exact = before * (1 - before / now) + (1 - before / now) ** 2 * left
    small = before * (1 - before / now)
    best = 2 * math.log(exact / small) / float(table.log_ratio[level]) - 1
    error = math.sqrt(left / now) * torch.randn(100_000, 1, generator=torch.Generator().manual_seed(0)).double()
    error *= math.sqrt(left / now) / float(error.square().mean().sqrt())
    v = torch.tensor(best, dtype=torch.float64, requires_grad=True)
    levels = torch.full((len(error),), level)
    ddpm.bound_terms(torch.zeros_like(error), levels, error, v.expand_as(error)).mean().backward()
    assert -1 < best < 1 and v.grad is not None and abs(float(v.grad)) < 1e-9


SCHEDULER = {"num_train_timesteps": 1000, "beta_schedule": "squaredcos_cap_v2"}


@pytest.mark.parametrize("level", [999, 700, 3, 0])
@pytest.mark.parametrize("clip", [False, True])
def test_one_step_is_that_of_diffusers(level: int, clip: bool) -> None:
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
    x, answer = (torch.randn(4, 1, 2, 2, generator=torch.Generator().manual_seed(seed)).double() for seed in (0, 1))
    v = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(2)).double() * 2 - 1
    common: dict[str, Any] = {"noise_levels": 1000, "sampler_levels": 1000, "clip": clip}
    alpha_bar = gaussian_levels("cosine", 1000, CPU).alpha_bar
    now, after = math.sqrt(alpha_bar[level]), math.sqrt(alpha_bar[level - 1]) if level else 1.0
    drawn = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)

    def close(ours: Tensor, theirs: Tensor) -> None:
        scale = 1 if clip else 1 / now  # diffusers' tables are float32, and x̂_0 is divided by √ᾱ
        assert torch.allclose(ours * after, theirs, atol=2e-5 * scale, rtol=1e-4)

    ddim = diffusers.DDIMScheduler(**SCHEDULER, clip_sample=clip)
    ddim.set_timesteps(1000)
    stepped = DDPM(**common).reverse_step(lambda y, c: answer, x / now, 999 - level)
    close(stepped, ddim.step(answer, level, x, use_clipped_model_output=True).prev_sample)  # type: ignore[arg-type]
    mean, spread = reverse_moments(DDPM(**common, eta=0.6), lambda y, c: answer, x / now, 999 - level)
    theirs = ddim.step(answer, level, x, eta=0.6, use_clipped_model_output=True, variance_noise=drawn).prev_sample
    close(mean + spread * drawn, theirs)
    for variance, kind in (("fixed", "fixed_small"), ("learned", "learned_range")):
        scheduler = diffusers.DDPMScheduler(**SCHEDULER, variance_type=kind, clip_sample=clip)
        out = answer if variance == "fixed" else torch.cat([answer, v], dim=1)
        ours = DDPM(**common, sampler="ancestral", variance=variance)
        mean, spread = reverse_moments(ours, lambda y, c, out=out: out, x / now, 999 - level)
        theirs = scheduler.step(out, level, x, generator=torch.Generator().manual_seed(5)).prev_sample
        close(mean + spread * drawn, theirs)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_denoiser_survives_the_way_through_its_raw_network(schedule: str) -> None:
    ddpm, oracle = DDPM(schedule=schedule), oracles.rule_denoiser(Parity(length=12, group=3))  # type: ignore[arg-type]
    low, high = ddpm.sigma_range()
    y = torch.randn(5, 12, dtype=torch.float64)
    for sigma in (low, 0.1, 0.5, 2.0, high):
        s = torch.full((5,), sigma, dtype=torch.float64)
        assert torch.allclose(ddpm.denoiser(ddpm.network_of(oracle))(y, s), oracle(y, s), atol=1e-6)
    table = gaussian_levels(schedule, 4000, CPU)
    levels = torch.tensor([0.0, 0.25, 17.0, 1234.5, 3998.5, 3999.0], dtype=torch.float64)
    assert torch.allclose(table.level_of(table.sigma_of(levels)), levels, atol=1e-6)
    assert table.level_of(torch.tensor([0.0, 1e9])).tolist() == [0, 3999]


def test_normal_numbers_of_seeds_are_normal_and_independent() -> None:
    seeds = draw_seeds(100_000, (1,), torch.Generator().manual_seed(0))
    one, two = (normals(seeds, count).double().flatten() for count in (0, 1))
    for found in (one, two):
        moments = [float((found**power).mean()) for power in (1, 2, 3, 4)]
        assert moments == pytest.approx([0, 1, 0, 3], abs=0.06)
    error = 4 / math.sqrt(100_000)
    assert abs(float((one * two).mean())) < error and abs(float((one**2 * two**2).mean()) - 1) < 4 * error
    assert abs(float((one[1:] * one[:-1]).mean())) < error


def test_settings_that_do_not_fit_are_refused_with_the_fix() -> None:
    with pytest.raises(SettingError, match=r"sampler_levels: 20.*at most noise_levels = 10"):
        DDPM(noise_levels=10, sampler_levels=20)
    with pytest.raises(SettingError, match=r"noise_levels: 20.*linear schedule needs at least 21"):
        DDPM(noise_levels=20, sampler_levels=5, schedule="linear")
    with pytest.raises(SettingError, match=r"eta: 0.5.*use ddim"):
        DDPM(sampler="ancestral", eta=0.5)
