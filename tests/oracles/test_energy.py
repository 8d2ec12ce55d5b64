"""The energy view: zero exactly on the valid set, degrees as P1 §5.2 says, and the split of the exact denoiser."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import twoclocks as tc
from twoclocks import oracles
from twoclocks.core.errors import UserError
from twoclocks.oracles.energy import corners, cube_energy, degree_spectrum, local_and_rule_terms, rule_energy
from twoclocks.rules import Rule

CASES = [
    ("parity", {"length": 9, "group": 3}),
    ("parity", {"length": 8, "group": 4}),
    ("exact_k", {"length": 8, "k": 3}),
    ("row_k", {"side": 3, "k": 2}),
    ("row_variable_k", {"side": 3, "ks": [0, 2]}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_energy_is_zero_on_the_valid_corners_alone(name: str, settings: dict[str, Any]) -> None:
    rule = tc.rules.create(name, **settings)
    x = corners(math.prod(rule.shape))
    energy = cube_energy(x) + rule_energy(rule, x)
    valid = rule.is_valid(((x + 1) / 2).long().reshape(-1, *rule.shape))
    assert torch.equal(energy == 0, valid) and bool((energy >= 0).all())
    assert bool((cube_energy(0.9 * x) > 0).all())


def gradient_degrees(rule: Rule, bits: int) -> list[int]:
    def gradient(x: Tensor) -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(rule_energy(rule, leaf).sum(), leaf)[0]

    return (degree_spectrum(gradient, bits) > 1e-12).nonzero().flatten().tolist()


def test_degree_of_the_rule_term() -> None:
    """Parity needs products of G−1 bits; exact-K needs a sum."""
    for group in (2, 3, 4, 6):
        assert max(gradient_degrees(tc.rules.create("parity", length=12, group=group), 12)) == group - 1
    for k in (1, 4, 6):
        assert max(gradient_degrees(tc.rules.create("exact_k", length=12, k=k), 12)) == 1
    assert max(gradient_degrees(tc.rules.create("row_k", side=3, k=1), 9)) == 1


def test_spectrum_against_a_slow_transform() -> None:
    x = corners(4)
    values = torch.randn(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slow = torch.zeros(5, dtype=torch.float64)
    for subset in range(16):
        chosen = [bit for bit in range(4) if subset >> bit & 1]
        slow[len(chosen)] += float((values * x[:, chosen].prod(dim=1)).mean()) ** 2
    assert torch.allclose(degree_spectrum(lambda _: values, 4), slow / slow.sum())


@pytest.mark.parametrize("sigma", [0.6, 1.0, 2.0])
def test_the_two_terms_make_the_denoiser(sigma: float) -> None:
    for name, settings in CASES:
        rule = tc.rules.create(name, **settings)
        y = torch.randn(6, *rule.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        local, rest = local_and_rule_terms(rule, y, sigma)
        assert torch.allclose(torch.tanh(local + rest), oracles.rule_denoiser(rule)(y, sigma), atol=1e-9)
        assert torch.allclose(torch.tanh(local), oracles.cube_denoiser()(y, sigma), atol=1e-12)
    rule = tc.rules.create("parity", length=9, group=3)
    y = torch.randn(6, 9, dtype=torch.float64)
    _, rest = local_and_rule_terms(rule, y, sigma)
    tanh = torch.tanh(y / sigma**2).reshape(6, 3, 3)
    others = tanh.prod(dim=2, keepdim=True) / tanh
    assert torch.allclose(rest.reshape(6, 3, 3), torch.atanh(-others), atol=1e-9)  # s = −1 for groups of 3


@pytest.mark.parametrize("sigma", [0.002, 0.05])
def test_the_split_stays_finite_at_small_noise(sigma: float) -> None:
    """Near a valid corner the rule term of parity is ± the smallest of the other fields."""
    rule = tc.rules.create("parity", length=6, group=3)
    y = (2.0 * rule.sample(5, 0) - 1).double() + sigma * torch.randn(5, 6, dtype=torch.float64)
    local, rest = local_and_rule_terms(rule, y, sigma)
    groups = local.abs().reshape(5, 2, 3)
    smallest = torch.stack([groups[..., [1, 2]], groups[..., [0, 2]], groups[..., [0, 1]]], dim=2).amin(dim=3)
    assert torch.allclose(rest.abs().reshape(5, 2, 3), smallest, rtol=1e-3)
    assert torch.equal(rest.sign(), y.sign())


def test_rules_without_an_energy_are_named() -> None:
    with pytest.raises(UserError, match="use parity"):
        rule_energy(tc.rules.create("latin", side=3), torch.zeros(1, 9))
    with pytest.raises(UserError, match="defined for bits"):
        local_and_rule_terms(tc.rules.create("latin", side=3), torch.zeros(1, 9), 1.0)
