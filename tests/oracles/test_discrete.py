"""Discrete oracles: belief propagation and its relatives against enumeration, under both corruptions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import twoclocks as tc
from twoclocks import oracles
from twoclocks.core.errors import UserError
from twoclocks.oracles.discrete import Corruption
from twoclocks.rules import RandomHierarchy

GRAMMARS = [
    RandomHierarchy(depth=2, branching=2, vocabulary=4, synonyms=3, rule_seed=2),
    RandomHierarchy(depth=3, branching=2, vocabulary=3, synonyms=2, rule_seed=7),
    RandomHierarchy(depth=1, branching=3, vocabulary=3, synonyms=4, rule_seed=0),
    RandomHierarchy(depth=2, branching=3, vocabulary=3, synonyms=1, rule_seed=1),
]
CORRUPTIONS = [oracles.UniformNoise(level) for level in (0.05, 0.5, 0.95, 1.0)] + [
    oracles.Masking(level) for level in (0.0, 0.3, 0.8, 1.0)
]


def weights_of(members: Tensor, tokens: Tensor, corruption: Corruption, symbols: int) -> Tensor:
    """P(member | tokens) (n, members) by Bayes' rule, entry by entry."""
    same = tokens[:, None] == members[None]
    if isinstance(corruption, oracles.Masking):
        likelihood = torch.where(tokens[:, None] == oracles.MASK, corruption.level, (1 - corruption.level) * same)
    else:
        likelihood = (1 - corruption.level) * same + corruption.level / symbols
    product = likelihood.double().flatten(2).prod(dim=2)
    return product / product.sum(dim=1, keepdim=True)


@pytest.mark.parametrize("rule", GRAMMARS, ids=lambda rule: f"{rule.depth} {rule.branching} {rule.vocabulary}")
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=repr)
def test_belief_propagation_equals_enumeration_at_every_layer(rule: RandomHierarchy, corruption: Corruption) -> None:
    members = rule.enumerate()
    tokens = corruption.corrupt(rule.sample(40, 1), rule.symbols, torch.Generator().manual_seed(0))
    weights = weights_of(members, tokens, corruption, rule.symbols)
    levels = oracles.token_layer_posteriors(rule, tokens, corruption)
    for found, nodes in zip(levels, rule.parse(members), strict=True):
        one_hot = torch.nn.functional.one_hot(nodes, rule.vocabulary).double()  # (members, nodes, vocabulary)
        expected = torch.einsum("nm,mka->nka", weights, one_hot)
        assert torch.allclose(found, expected, atol=1e-9)
    assert torch.allclose(oracles.token_posterior(rule, tokens, corruption), levels[0], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("parity", {"length": 8, "group": 4}),
        ("global_k", {"side": 3, "ks": [1, 2]}),
        ("row_latin", {"side": 3}),
        ("sudoku", {"block_rows": 2, "block_cols": 2}),
    ],
)
def test_other_rules_have_discrete_posteriors_too(name: str, settings: dict[str, Any]) -> None:
    rule = tc.rules.create(name, **settings)
    for corruption in (oracles.UniformNoise(0.4), oracles.Masking(0.6)):
        tokens = corruption.corrupt(rule.sample(20, 1), rule.symbols, torch.Generator().manual_seed(0))
        weights = weights_of(rule.enumerate(), tokens, corruption, rule.symbols)
        one_hot = torch.nn.functional.one_hot(rule.enumerate().flatten(1), rule.symbols).double()
        expected = torch.einsum("nm,mka->nka", weights, one_hot)
        assert torch.allclose(oracles.token_posterior(rule, tokens, corruption), expected, atol=1e-9)


def test_corruptions_have_the_stated_rates() -> None:
    x = torch.zeros(20_000, 10, dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)
    masked = oracles.Masking(0.3).corrupt(x, 4, generator)
    assert float((masked == oracles.MASK).double().mean()) == pytest.approx(0.3, abs=0.005)
    noisy = oracles.UniformNoise(0.3).corrupt(x, 4, generator)
    shares = torch.bincount(noisy.flatten(), minlength=4).double() / noisy.numel()
    assert shares.tolist() == pytest.approx([0.7 + 0.3 / 4, 0.075, 0.075, 0.075], abs=0.005)


def test_small_integer_types_can_be_masked() -> None:
    x = GRAMMARS[0].sample(5, 0).to(torch.uint8)
    tokens = oracles.Masking(0.9).corrupt(x, 4, torch.Generator().manual_seed(0))
    assert int(tokens.min()) == oracles.MASK
    assert oracles.token_posterior(GRAMMARS[0], tokens, oracles.Masking(0.9)).shape == (5, 4, 4)


def test_a_masked_leaf_is_restored_by_its_sisters() -> None:
    """With one synonym a string is its root: one visible pair that occurs once decides everything."""
    rule = RandomHierarchy(depth=2, branching=2, vocabulary=4, synonyms=1, rule_seed=0)
    x = rule.enumerate()
    tokens = x.clone()
    tokens[:, 3] = oracles.MASK
    restored = oracles.token_posterior(rule, tokens, oracles.Masking(0.25)).argmax(dim=2)
    agree = (x[:, None, :3] == x[None, :, :3]).all(dim=2).sum(dim=1) == 1  # no other string has the same three
    assert bool(agree.any()) and torch.equal(restored[agree], x[agree])


def test_impossible_evidence_is_refused() -> None:
    rule = GRAMMARS[0]
    known = {tuple(row) for row in rule.enumerate().tolist()}
    bad = next(row for row in torch.cartesian_prod(*[torch.arange(4)] * 4).tolist() if tuple(row) not in known)
    with pytest.raises(UserError, match="tokens: 1 rows have probability 0 under the rule"):
        oracles.token_posterior(rule, torch.tensor([rule.sample(1, 0)[0].tolist(), bad]), oracles.Masking(0.5))
    with pytest.raises(UserError, match="have probability 0"):
        oracles.token_layer_posteriors(rule, torch.tensor([bad]), oracles.Masking(0.5))
    sudoku = tc.rules.create("sudoku", block_rows=2, block_cols=2)
    with pytest.raises(UserError, match="have probability 0"):
        oracles.token_posterior(sudoku, torch.zeros(1, 4, 4, dtype=torch.int64), oracles.Masking(0.5))
    with pytest.raises(UserError, match="has no layers; use rhm"):
        oracles.token_layer_posteriors(sudoku, sudoku.sample(1, 0), oracles.Masking(0.5))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"samples: shape \(1, 5\) is not allowed; use \(n, 4\)"):
        oracles.token_posterior(rule, torch.zeros(1, 5, dtype=torch.int64), oracles.Masking(0.5))
    with pytest.raises(UserError, match="tokens: 4 is not allowed; use 0 to 3"):
        oracles.token_posterior(rule, torch.tensor([[0, 1, 2, 4]]), oracles.UniformNoise(0.5))
    with pytest.raises(UserError, match=r"level: 1\.5"):
        oracles.UniformNoise(1.5)


def test_token_floor_equals_the_entropy_by_enumeration() -> None:
    """All masked: the mean entropy of a leaf; nothing masked: zero; in between: the mean over enumerated posteriors."""
    rule = GRAMMARS[1]
    frequencies = torch.nn.functional.one_hot(rule.enumerate(), 3).double().mean(dim=0)
    entropy = -(frequencies * frequencies.clamp(min=1e-300).log()).sum(dim=1).mean()
    blind = oracles.token_floor(rule, oracles.Masking(1.0), samples=4096)
    assert blind.loss == pytest.approx(float(entropy), abs=4 * blind.error)
    assert oracles.token_floor(rule, oracles.Masking(0.0), samples=64).loss == pytest.approx(0, abs=1e-12)
    floors = [oracles.token_floor(rule, oracles.UniformNoise(level)).loss for level in (0.1, 0.4, 0.7, 1.0)]
    assert floors == sorted(floors) and floors[-1] <= math.log(3) + 0.01


def test_uniform_noise_floor_equals_bayes_error_by_enumeration() -> None:
    rule, corruption = GRAMMARS[2], oracles.UniformNoise(0.5)
    members = rule.enumerate()
    every = torch.cartesian_prod(*[torch.arange(3)] * 3)
    likelihood = (0.5 * (every[:, None] == members[None]) + 0.5 / 3).double().prod(dim=2) / len(members)  # joint
    posterior = oracles.token_posterior(rule, every, corruption)
    one_hot = torch.nn.functional.one_hot(members, 3).bool()
    loss = sum(float(likelihood[:, m] @ -posterior[:, one_hot[m]].log().mean(dim=1)) for m in range(len(members)))
    found = oracles.token_floor(rule, corruption, samples=20_000)
    assert found.loss == pytest.approx(loss, abs=4 * found.error)
