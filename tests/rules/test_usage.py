"""How strings of a grammar use its productions, against slow parses and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twoclocks.rules import RandomHierarchy
from twoclocks.rules.usage import nodes_used, production_count, usage_counts, usage_moments

GRAMMARS = [
    RandomHierarchy(depth=2, branching=2, vocabulary=3, synonyms=2, rule_seed=5),
    RandomHierarchy(depth=3, branching=2, vocabulary=3, synonyms=2, rule_seed=1),
    RandomHierarchy(depth=2, branching=3, vocabulary=4, synonyms=3, rule_seed=2),
    RandomHierarchy(depth=1, branching=2, vocabulary=4, synonyms=4),
    RandomHierarchy(depth=2, branching=2, vocabulary=6, synonyms=1, rule_seed=8),  # some symbols are never named
]


def slow_parse(rule: RandomHierarchy, string: list[int]) -> list[tuple[int, int, int]] | None:
    """(level, symbol, synonym) of every node from left to right, level by level, by searching all productions."""
    found = []
    for level, table in enumerate(rule.productions, start=1):
        above = []
        for start in range(0, len(string), rule.branching):
            piece = string[start : start + rule.branching]
            fitting = [
                (symbol, synonym)
                for symbol, strings in enumerate(table.tolist())
                for synonym, known in enumerate(strings)
                if known == piece
            ]
            if not fitting:
                return None
            (pair,) = fitting
            found.append((level, *pair))
            above.append(pair[0])
        string = above
    return found


@pytest.mark.parametrize("rule", GRAMMARS, ids=str)
def test_productions_are_those_of_a_slow_parse(rule: RandomHierarchy) -> None:
    x = rule.sample(60, seed=4)
    used, counts = nodes_used(rule, x), usage_counts(rule, nodes_used(rule, x))
    width = rule.vocabulary * rule.synonyms
    for row, string in enumerate(x.tolist()):
        slow = slow_parse(rule, string)
        assert slow is not None
        numbers = [(level - 1) * width + symbol * rule.synonyms + synonym for level, symbol, synonym in slow]
        assert used[row].tolist() == numbers
        assert counts[row].tolist() == np.bincount(numbers, minlength=production_count(rule)).tolist()


def test_what_has_no_derivation_uses_nothing() -> None:
    rule = GRAMMARS[0]
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    used = nodes_used(rule, every)
    for row, string in enumerate(every.tolist()):
        assert bool((used[row] >= 0).all()) == (slow_parse(rule, string) is not None)
    broken = usage_counts(rule, torch.full((2, 3), -1))
    assert broken.shape == (2, production_count(rule)) and not broken.any()
    assert [level.tolist() for level in rule.productions_used(torch.full((1, 4), 7))] == [[[-1, -1]], [[-1]]]


@pytest.mark.parametrize("rule", GRAMMARS, ids=str)
def test_moments_are_those_of_all_strings(rule: RandomHierarchy) -> None:
    every = rule.enumerate()
    counts = usage_counts(rule, nodes_used(rule, every)).double().numpy()
    mean, covariance = usage_moments(rule)
    assert np.allclose(mean, counts.mean(axis=0))
    assert np.allclose(covariance, np.cov(counts.T, bias=True))
    width = rule.vocabulary * rule.synonyms
    assert np.allclose(mean[-width:], 1 / width)  # the root is uniform
    assert np.allclose(mean.reshape(rule.depth, width).sum(axis=1), [rule.nodes(k) for k in range(1, rule.depth + 1)])


def test_lower_layers_are_not_uniform() -> None:
    rule = GRAMMARS[4]
    named = set(rule.productions[1].flatten().tolist())
    assert len(named) < 6
    mean, covariance = usage_moments(rule)
    for symbol in range(6):
        assert (mean[symbol] > 0) == (symbol in named) == (covariance[symbol, symbol] > 0)
