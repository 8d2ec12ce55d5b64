"""Parity against enumeration, for every small size; and its sampler against uniformity."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import twoclocks as tc
from twoclocks.core.errors import SettingError, UserError
from twoclocks.rules import Parity
from twoclocks.testing import check_rule


@st.composite
def parities(draw: st.DrawFn) -> Parity:
    group = draw(st.integers(1, 6))
    return Parity(length=group * draw(st.integers(1, max(1, 12 // group))), group=group)


@given(parities())
@settings(max_examples=40, deadline=None)
def test_contract_holds_for_any_size(rule: Parity) -> None:
    check_rule(rule)


@given(parities(), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_flipping_one_bit_breaks_exactly_its_group(rule: Parity, seed: int) -> None:
    x = rule.sample(8, seed)
    flipped = x.clone()
    where = seed % rule.length
    flipped[:, where] ^= 1
    broken = ~rule.parts_valid(flipped)["group"]
    assert broken.sum(dim=1).tolist() == [1] * 8
    assert bool(broken[:, where // rule.group].all())
    assert not bool(rule.is_valid(flipped).any())


def test_validity_equals_a_slow_definition() -> None:
    rule = Parity(length=12, group=4)
    rows = list(itertools.product([0, 1], repeat=12))
    slow = [all(sum(row[i : i + 4]) % 2 == 0 for i in (0, 4, 8)) for row in rows]
    assert rule.is_valid(torch.tensor(rows)).tolist() == slow
    assert sum(slow) == rule.count() == 512


def test_samples_are_uniform_on_the_valid_set() -> None:
    rule = Parity(length=8, group=4)
    x = rule.sample(64_000, seed=0)
    codes = (x * 2 ** torch.arange(8)).sum(dim=1)
    observed = torch.unique(codes, return_counts=True)[1]
    assert len(observed) == rule.count() == 64
    assert chisquare(observed.numpy()).pvalue > 1e-4


@pytest.mark.parametrize(("group", "count"), [(2, 2**18), (3, 2**24), (4, 2**27), (6, 2**30), (36, 2**35)])
def test_counts_of_the_paper(group: int, count: int) -> None:
    rule = tc.rules.create("parity", length=36, group=group)
    assert rule.count() == count
    assert rule.chance() == pytest.approx(2.0 ** -(36 // group))
    assert rule.part_chance() == {"group": 0.5}


def test_group_must_divide_the_length() -> None:
    with pytest.raises(SettingError, match=r"rule\.group: 5 is not allowed; it must divide length = 36"):
        tc.rules.create("parity", length=36, group=5)


def test_wrong_samples_are_refused_not_judged() -> None:
    rule = Parity(length=6, group=3)
    with pytest.raises(UserError, match="decode"):
        rule.is_valid(torch.zeros(2, 6))
    with pytest.raises(UserError, match="shape"):
        rule.is_valid(torch.zeros(2, 5, dtype=torch.int64))
