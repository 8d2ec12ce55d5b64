"""Counting rules: the papers' counts, uniform samples, validity against a slow definition."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from twoclocks.data import cube_set
from twoclocks.rules import ExactK, GlobalK, RowK, RowVariableK, Rule
from twoclocks.testing import check_rule


@given(st.integers(1, 9), st.data())
@settings(max_examples=25, deadline=None)
def test_exact_k_for_any_size(length: int, data: st.DataObject) -> None:
    check_rule(ExactK(length=length, k=data.draw(st.integers(0, length))))


@given(st.integers(1, 3), st.data())
@settings(max_examples=25, deadline=None)
def test_row_rules_for_any_size(side: int, data: st.DataObject) -> None:
    ks = tuple(data.draw(st.lists(st.integers(0, side), min_size=1, unique=True)))
    check_rule(RowK(side=side, k=ks[0]))
    check_rule(RowVariableK(side=side, ks=ks))
    check_rule(GlobalK(side=side, ks=ks))


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        (ExactK(length=36, k=18), 9_075_135_300),
        (ExactK(length=36, k=6), 1_947_792),
        (RowK(side=6, k=3), 64_000_000),
        (RowVariableK(side=6, ks=(2, 4)), 30**6),
        (GlobalK(side=6, ks=(1, 2, 3)), 6**6 + 15**6 + 20**6),
    ],
)
def test_counts_and_chances_of_the_paper(rule: Rule, count: int) -> None:
    assert rule.count() == count
    assert rule.chance() == pytest.approx(count / 2**36)


def slow(rule: Rule, grid: list[list[int]]) -> bool:
    ones = [sum(row) for row in grid]
    if isinstance(rule, ExactK):
        return sum(ones) == rule.k
    if isinstance(rule, RowK):
        return all(k == rule.k for k in ones)
    assert isinstance(rule, RowVariableK | GlobalK)
    return all(k in rule.ks for k in ones) and (isinstance(rule, RowVariableK) or len(set(ones)) == 1)


RULES = [ExactK(length=16, k=7), RowK(side=4, k=2), RowVariableK(side=4, ks=(1, 2)), GlobalK(side=4, ks=(1, 2))]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_validity_equals_a_slow_definition(rule: Rule) -> None:
    x = torch.cat([cube_set(rule, 4000, 0), *(other.sample(200, 0).reshape(-1, *rule.shape) for other in RULES)])
    expected = [slow(rule, grid) for grid in x.reshape(-1, 4, 4).tolist()]
    assert rule.is_valid(x).tolist() == expected
    assert 0 < sum(expected) < len(expected)


@pytest.mark.parametrize(
    "rule",
    [
        ExactK(length=9, k=4),
        RowK(side=3, k=1),
        RowVariableK(side=3, ks=(0, 1)),
        RowVariableK(side=3, ks=(3, 2, 0)),
        GlobalK(side=3, ks=(1, 3)),
        GlobalK(side=3, ks=(0, 1, 2)),
    ],
    ids=repr,
)
def test_samples_are_uniform_on_the_valid_set(rule: Rule) -> None:
    x = rule.sample(200 * rule.count(), seed=1)
    observed = torch.unique(x, dim=0, return_counts=True)[1]
    assert len(observed) == rule.count()
    assert chisquare(observed.numpy()).pvalue > 1e-4


def test_number_of_ones_in_a_row_follows_what_it_leaves_to_the_others() -> None:
    """With one count shared by all rows, the probability of k is C(n,k)^n; with free rows it is C(n,k)."""
    shared, free = (
        torch.bincount(rule.ones(rule.sample(20_000, 0))[:, 0], minlength=5).double() / 20_000
        for rule in (GlobalK(side=4, ks=(1, 2)), RowVariableK(side=4, ks=(1, 2)))
    )
    assert float(shared[2]) == pytest.approx(6**4 / (6**4 + 4**4), abs=0.015)
    assert float(free[2]) == pytest.approx(6 / 10, abs=0.015)


def test_large_grids_are_sampled_without_overflow() -> None:
    rule = GlobalK(side=64, ks=(31, 32))
    assert bool(rule.is_valid(rule.sample(4, 0)).all())
    assert rule.count() == math.comb(64, 31) ** 64 + math.comb(64, 32) ** 64
