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
from twoclocks.oracles.energy import rule_energy
from twoclocks.rules import Parity
from twoclocks.testing import check_rule


@st.composite
def parities(draw: st.DrawFn) -> Parity:
    group = draw(st.integers(1, 6))
    length = group * draw(st.integers(1, max(1, 12 // group)))
    seeds = st.none() if group in (1, length) else st.one_of(st.none(), st.integers(0, 99))
    return Parity(length=length, group=group, scatter_seed=draw(seeds))


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
    places = torch.arange(rule.length)[None]
    assert bool(broken[:, (rule.parts(places)["group"][0] == where).any(dim=1)].all())
    assert rule.scatter_seed is not None or bool(broken[:, where // rule.group].all())
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


def test_a_scattered_rule_is_the_consecutive_one_with_permuted_positions() -> None:
    plain, rule = Parity(length=12, group=3), Parity(length=12, group=3, scatter_seed=5)
    places = rule.parts(torch.arange(12)[None])["group"][0]  # (groups, group)
    assert sorted(places.flatten().tolist()) == list(range(12)) and not torch.equal(places, places.sort()[0])
    assert torch.equal(rule.sample(50, seed=2)[:, places.flatten()], plain.sample(50, seed=2))
    rows = torch.tensor(list(itertools.product([0, 1], repeat=12)))
    slow = torch.stack([rows[:, place].sum(dim=1) % 2 == 0 for place in places], dim=1)
    assert torch.equal(rule.parts_valid(rows)["group"], slow)
    assert (rule.count(), rule.chance()) == (plain.count(), plain.chance())
    other = Parity(length=12, group=3, scatter_seed=6)
    assert not torch.equal(other.is_valid(rows), rule.is_valid(rows))
    assert torch.equal(Parity(length=12, group=3, scatter_seed=5).is_valid(rows), rule.is_valid(rows))


@pytest.mark.parametrize(("length", "group"), [(4, 2), (36, 2), (36, 3), (36, 18)])
def test_no_scattered_group_is_consecutive(length: int, group: int) -> None:
    for seed in range(30):
        rule = Parity(length=length, group=group, scatter_seed=seed)
        places = rule.parts(torch.arange(length)[None])["group"][0]
        assert bool((places.amax(dim=1) - places.amin(dim=1) >= group).all())


@pytest.mark.parametrize("group", [1, 8])
def test_there_must_be_something_to_scatter(group: int) -> None:
    with pytest.raises(SettingError, match=rf"rule\.scatter_seed: 0 .*group = {group} of 8 bits; leave it out"):
        tc.rules.create("parity", length=8, group=group, scatter_seed=0)


@pytest.mark.parametrize("seed", [0, 7])
def test_the_oracles_of_scattered_groups_are_those_of_the_listed_valid_set(seed: int) -> None:
    rule = Parity(length=8, group=4, scatter_seed=seed)
    y = torch.randn(30, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    listed = tc.oracles.empirical_denoiser(rule.enumerate())
    assert torch.allclose(tc.oracles.rule_denoiser(rule)(y, 0.8), listed(y, 0.8))
    x = 2.0 * torch.tensor(list(itertools.product([0, 1], repeat=8))) - 1
    assert torch.equal(rule_energy(rule, x) == 0, rule.is_valid(((x + 1) / 2).long()))


def test_scattered_rules_judge_samples_on_the_device_where_they_are() -> None:
    rule = Parity(length=8, group=4, scatter_seed=0)
    assert rule.is_valid(rule.sample(3, seed=0).to("meta")).is_meta
