"""The Random Hierarchy Model: its grammar, its strings, its layers."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from twoclocks.core.errors import UserError
from twoclocks.rules import RULES, RandomHierarchy
from twoclocks.rules.base import Rule
from twoclocks.testing import check_rule


@st.composite
def grammars(draw: st.DrawFn) -> RandomHierarchy:
    branching, vocabulary = draw(st.sampled_from([(2, 2), (2, 3), (3, 2), (2, 4)]))
    synonyms = draw(st.integers(1, min(3, vocabulary ** (branching - 1))))
    depth = draw(st.integers(1, 2 if branching == 2 else 1))
    return RandomHierarchy(
        depth=depth, branching=branching, vocabulary=vocabulary, synonyms=synonyms, rule_seed=draw(st.integers(0, 99))
    )


@given(grammars())
@settings(max_examples=30, deadline=None)
def test_contract_for_any_grammar(rule: RandomHierarchy) -> None:
    check_rule(rule)


@given(grammars())
@settings(max_examples=20, deadline=None)
def test_productions_are_unambiguous(rule: RandomHierarchy) -> None:
    for table in rule.productions:
        strings = [tuple(string) for string in table.flatten(0, 1).tolist()]
        assert len(set(strings)) == rule.vocabulary * rule.synonyms


def test_strings_equal_a_slow_derivation_of_everything() -> None:
    rule = RandomHierarchy(depth=2, branching=2, vocabulary=3, synonyms=2, rule_seed=5)
    low, high = (table.tolist() for table in rule.productions)
    slow = {
        tuple(left + right)
        for root in range(3)
        for a, b in high[root]
        for left, right in itertools.product(low[a], low[b])
    }
    assert slow == {tuple(row) for row in rule.enumerate().tolist()}
    assert slow == {tuple(row) for row in Rule.members(rule).tolist()}  # by trying all strings
    assert len(slow) == rule.count() == 3 * 2**3


def test_samples_are_uniform() -> None:
    rule = RandomHierarchy(depth=2, branching=2, vocabulary=4, synonyms=3, rule_seed=1)
    observed = torch.unique(rule.sample(100 * rule.count(), seed=0), dim=0, return_counts=True)[1]
    assert len(observed) == rule.count() == 108 and chisquare(observed.numpy()).pvalue > 1e-4


def test_parse_returns_the_derivation() -> None:
    rule = RandomHierarchy(depth=3, branching=2, vocabulary=16, synonyms=4)
    levels = rule.parse(rule.sample(200, 0))
    assert [level.shape[1] for level in levels] == [8, 4, 2, 1]
    for below, above, table in zip(levels, levels[1:], rule.productions, strict=False):
        strings = below.reshape(200, -1, 2)
        for symbol, string in zip(above.flatten().tolist(), strings.flatten(0, 1).tolist(), strict=True):
            assert string in table[symbol].tolist()


def test_a_broken_layer_breaks_those_above_it_and_none_below() -> None:
    rule = RandomHierarchy(depth=3, branching=2, vocabulary=16, synonyms=2, rule_seed=2)
    known = {tuple(string) for string in rule.productions[1].flatten(0, 1).tolist()}
    pair = next(p for p in itertools.product(range(16), repeat=2) if p not in known)  # not a production of level 2
    x = rule.sample(30, 0)
    x[:, :4] = torch.cat([rule.productions[0][symbol, 0] for symbol in pair])
    valid = rule.parts_valid(x)
    assert bool(valid["layer_1"].all())
    assert not bool(valid["layer_2"][:, 0].any()) and bool(valid["layer_2"][:, 1].all())
    assert not bool(valid["layer_3"].any()) and not bool(rule.is_valid(x).any())


def test_grammar_and_data_have_seeds_of_their_own() -> None:
    arguments = {"depth": 2, "branching": 2, "vocabulary": 8, "synonyms": 2}
    one, other = (RandomHierarchy(**arguments, rule_seed=seed) for seed in (0, 1))
    assert not torch.equal(one.productions[0], other.productions[0])
    assert not torch.equal(one.productions[0], one.productions[1])
    assert int(other.is_valid(one.sample(1000, 0)).sum()) < 100


@pytest.mark.parametrize(
    ("parameters", "count"),
    [((3, 2, 16, 4), 16 * 4**7), ((5, 2, 16, 3), 16 * 3**31), ((3, 3, 24, 12), 24 * 12**13)],
)
def test_counts_of_the_paper(parameters: tuple[int, int, int, int], count: int) -> None:
    depth, branching, vocabulary, synonyms = parameters
    rule = RandomHierarchy(depth=depth, branching=branching, vocabulary=vocabulary, synonyms=synonyms)
    assert rule.count() == count
    assert rule.part_counts()["layer_1"] == vocabulary * synonyms


def test_milestones_are_the_sample_complexities_of_the_paper() -> None:
    rule = RandomHierarchy(depth=3, branching=2, vocabulary=16, synonyms=4)
    assert rule.milestones() == {"P*_1": 256, "P*_2": 1024, "P*": 4096}  # P2: P* ≈ 4,096
    deep = RandomHierarchy(depth=5, branching=2, vocabulary=16, synonyms=3)
    assert deep.milestones()["P*"] == deep.sample_complexity(5) == 16 * 3**6  # P2: about 10^4
    assert list(deep.milestones()) == ["P*_1", "P*_2", "P*_3", "P*_4", "P*"]
    for level in (0, 6):
        with pytest.raises(UserError, match="layer from 1 to 5"):
            deep.sample_complexity(level)


def test_other_rules_have_no_milestones() -> None:
    assert RULES.create("parity", length=12, group=3).milestones() == {}
