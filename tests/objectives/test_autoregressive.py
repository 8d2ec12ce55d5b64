from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chisquare

from twoclocks import models
from twoclocks.objectives import Autoregressive, sample
from twoclocks.rules import Parity
from twoclocks.testing import check_objective
from twoclocks.testing.contracts import randomised


def parity_network(rule: Parity) -> object:
    """The exact next-bit predictor of a parity rule: uniform, except that a group's last bit is certain."""

    def network(tokens: torch.Tensor) -> torch.Tensor:
        n, t = tokens.shape
        logits = torch.zeros(n, t, 2, dtype=torch.float64)
        for position in range(t):  # the logits at `position` predict bit number `position`
            if position % rule.group == rule.group - 1:
                seen = tokens[:, position - rule.group + 2 : position + 1]
                odd = seen.sum(dim=1) % 2 == 1 if rule.group > 1 else torch.zeros(n, dtype=torch.bool)
                logits[:, position, 1] = torch.where(odd, 1e4, -1e4)
        return logits

    return network


def test_contract() -> None:
    check_objective(Autoregressive(), models.create("gpt", width=32, depth=2, heads=2), (8,), 3)


@pytest.mark.parametrize("group", [2, 3, 4])
def test_exact_predictor_reaches_the_entropy_and_samples_uniformly(group: int) -> None:
    rule, objective = Parity(length=12, group=group), Autoregressive()
    network = parity_network(rule)
    clean = rule.sample(500, seed=0)
    losses = objective.token_losses(network, clean)  # type: ignore[arg-type]
    last = torch.arange(12) % group == group - 1
    assert float(losses[:, last].max()) < 1e-6
    assert torch.allclose(losses[:, ~last], torch.tensor(math.log(2), dtype=losses.dtype))
    assert float(objective.loss(network, clean, torch.Generator()).mean()) == pytest.approx(  # type: ignore[arg-type]
        math.log(rule.count()) / 12, abs=1e-6
    )
    noise = objective.draw_noise(20_000, (12,), torch.Generator().manual_seed(0))
    x = sample(objective, network, noise)  # type: ignore[arg-type]
    assert bool(rule.is_valid(x).all())
    if rule.count() <= 256:
        observed = torch.unique(x, dim=0, return_counts=True)[1]
        assert len(observed) == rule.count() and chisquare(observed.numpy()).pvalue > 1e-4


def test_sampling_with_the_cache_equals_sampling_without() -> None:
    network = randomised(models.create("gpt", width=32, depth=2, heads=2), (10,), 3)
    objective = Autoregressive()
    noise = objective.draw_noise(64, (10,), torch.Generator().manual_seed(1))
    cached = sample(objective, network, noise)
    assert torch.equal(cached, sample(objective, network.forward, noise))  # a bare function has no cache
    assert torch.equal(cached[5:9], sample(objective, network, noise[5:9]))


def test_temperature_and_frequencies() -> None:
    probabilities = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)

    def network(tokens: torch.Tensor) -> torch.Tensor:
        return probabilities.log().expand(*tokens.shape, 3)

    for temperature in (1.0, 0.5):
        objective = Autoregressive(temperature=temperature)
        noise = objective.draw_noise(40_000, (1,), torch.Generator().manual_seed(2))
        counts = torch.bincount(sample(objective, network, noise, chunk=10_000).flatten(), minlength=3)
        expected = probabilities ** (1 / temperature) / (probabilities ** (1 / temperature)).sum()
        assert chisquare(counts.numpy(), 40_000 * expected.numpy()).pvalue > 1e-4


def test_uniform_of_one_stays_inside_the_symbols() -> None:
    objective = Autoregressive()
    x = sample(objective, lambda tokens: torch.zeros(*tokens.shape, 2), torch.ones(3, 4))
    assert int(x.max()) <= 1
