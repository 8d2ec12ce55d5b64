"""Code books against enumeration: as large as parity, another list for another seed, and oracles that are exact."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import twoclocks as tc
from twoclocks.rules import CodeBook, Parity
from twoclocks.testing import check_rule


@st.composite
def books(draw: st.DrawFn) -> CodeBook:
    group = draw(st.integers(1, 6))
    length = group * draw(st.integers(1, max(1, 12 // group)))
    return CodeBook(length=length, group=group, seed=draw(st.integers(0, 99)))


@given(books())
@settings(max_examples=30, deadline=None)
def test_contract_holds_for_any_size_and_is_as_large_as_parity(rule: CodeBook) -> None:
    check_rule(rule)
    parity = Parity(length=rule.length, group=rule.group)
    assert (rule.count(), rule.chance()) == (parity.count(), parity.chance())
    assert (rule.part_counts(), rule.part_chance()) == (parity.part_counts(), parity.part_chance())


def test_a_group_is_valid_if_it_is_a_word_of_the_list() -> None:
    rule = CodeBook(length=8, group=4, seed=3)
    words = {tuple(word) for word in rule.words.tolist()}
    assert len(words) == 8 and rule.words.tolist() == sorted(rule.words.tolist())
    rows = list(itertools.product([0, 1], repeat=8))
    slow = [row[:4] in words and row[4:] in words for row in rows]
    assert rule.is_valid(torch.tensor(rows)).tolist() == slow and sum(slow) == rule.count() == 64


def test_every_word_is_equally_likely_to_be_in_a_list() -> None:
    """Over many seeds each of the 2^3 words is in half of the lists, and nearly all possible lists occur."""
    lists = [CodeBook(length=3, group=3, seed=seed).words for seed in range(400)]
    counts = torch.bincount(torch.cat(lists) @ torch.tensor([4, 2, 1]), minlength=8)
    assert chisquare(counts.numpy()).pvalue > 1e-4
    assert len({tuple(map(tuple, words.tolist())) for words in lists}) > 60  # of the 70 lists of 4 out of 8
    assert torch.equal(lists[7], CodeBook(length=30, group=3, seed=7).words)


@pytest.mark.parametrize("sigma", [0.3, 1.5])
def test_its_oracle_is_that_of_the_listed_valid_set(sigma: float) -> None:
    rule = CodeBook(length=8, group=4, seed=2)
    y = torch.randn(30, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    listed = tc.oracles.empirical_denoiser(rule.enumerate())
    assert torch.allclose(tc.oracles.rule_denoiser(rule)(y, sigma), listed(y, sigma))


def test_large_groups_have_samples_and_verdicts_but_no_oracle() -> None:
    rule = CodeBook(length=36, group=18)
    x = rule.sample(200, seed=0)
    assert rule.is_valid(x).all() and rule.table_bytes() > 8 * rule.words.numel()
    assert 0.4 < float(rule.parts_valid(tc.data.cube_set(rule, 500, 0))["group"].double().mean()) < 0.6
    assert rule.log_partition(torch.zeros(1, 36, 2)) is None
