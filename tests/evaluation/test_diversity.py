"""Diversity against counting by hand, and its chance levels against every possible draw and against true samples."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from twoclocks.data import cube_set, held_out, holdout_set, training_set
from twoclocks.data.encodings import Decoded
from twoclocks.evaluation import EvaluationSettings, Evaluator
from twoclocks.evaluation.diversity import (
    binomial,
    entropy,
    expected_coverage,
    expected_distinct,
    expected_entropy,
    tally,
)
from twoclocks.rules import CyclicLatin, ExactK, GlobalK, Latin, Parity, RandomHierarchy, Rule, Sudoku


def evaluated(evaluate: Evaluator, symbols: torch.Tensor) -> dict[str, float]:
    return evaluate(Decoded(symbols, torch.zeros(len(symbols))))


def chances(evaluate: Evaluator) -> dict[str, float | None]:
    return {metric.name: metric.chance_rule for metric in evaluate.columns()}


def bits(contents: list[tuple[int, ...]]) -> float:
    """Entropy of the shares, and the correction of Miller and Madow."""
    counts = list(Counter(contents).values())
    total = sum(counts)
    plain = -sum(c / total * math.log2(c / total) for c in counts)
    return plain + (len(counts) - 1) / (2 * total * math.log(2))


@given(st.sampled_from([2, 3, 17, 300]), st.integers(1, 150), st.integers(0, 40), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_tally_is_what_a_dictionary_counts(symbols: int, width: int, n: int, seed: int) -> None:
    """Rows of one word and of many, most of them several times; those that are not chosen do not count."""
    generator = torch.Generator().manual_seed(seed)
    few = torch.randint(symbols, (5, width), generator=generator)
    few[1, : width // 2] = few[0, : width // 2]  # so that first words alone do not decide
    few[2, width // 2 :] = few[0, width // 2 :]
    rows, chosen = few[torch.randint(5, (n,), generator=generator)], torch.rand(n, generator=generator) < 0.6
    found = tally(rows, chosen, symbols)
    expected = Counter(tuple(row) for row, kept in zip(rows.tolist(), chosen.tolist(), strict=True) if kept)
    assert sorted(found[found > 0].tolist()) == sorted(expected.values()) and found.shape == (n,)


@pytest.mark.parametrize(
    "rule",
    [
        Parity(length=12, group=3),
        Latin(side=4),
        CyclicLatin(side=4),
        Sudoku(block_rows=2, block_cols=2),
        GlobalK(side=4, ks=(1, 2)),
        RandomHierarchy(depth=2, branching=2, vocabulary=6, synonyms=3),
        Parity(length=150, group=75),
    ],
    ids=repr,
)
def test_columns_equal_a_slow_version(rule: Rule) -> None:
    train = training_set(rule, 20, seed=0)
    few = held_out(rule, train, 30, seed=1)[torch.randint(30, (40,), generator=torch.Generator().manual_seed(0))]
    mixed = torch.cat([few, cube_set(rule, 50, 2), train[:7], rule.sample(30, 3)])
    row = evaluated(Evaluator(rule, train, EvaluationSettings()), mixed)
    known = {tuple(r.flatten().tolist()) for r in train}
    new = [r for r in mixed if bool(rule.is_valid(r[None])) and tuple(r.flatten().tolist()) not in known]
    different = {tuple(r.flatten().tolist()) for r in new}
    assert 20 < len(different) < len(new) < len(mixed)
    assert row["distinct_new"] == pytest.approx(len(different) / len(new), rel=1e-12)
    assert row["coverage_new"] == pytest.approx(len(different) / (rule.support() - 20), rel=1e-12)
    for kind, count in rule.part_counts().items():
        pieces = rule.parts(torch.stack(new))[kind]
        if pieces.shape[2] == math.prod(rule.shape):
            assert f"{kind}_entropy" not in row
            continue
        contents = [tuple(piece) for sample in pieces.tolist() for piece in sample]
        assert row[f"{kind}_entropy"] == pytest.approx(bits(contents) / math.log2(count), rel=1e-12), kind


def test_one_sample_again_and_again_is_not_diverse() -> None:
    rule = Parity(length=12, group=3)
    train = training_set(rule, 20, seed=0)
    same = torch.tensor([[0, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1, 1]])  # all four contents of a group
    assert not (train == same).all(dim=1).any()
    row = evaluated(Evaluator(rule, train, EvaluationSettings()), torch.cat([same.repeat(50, 1), train]))
    assert row["distinct_new"] == 1 / 50 and row["coverage_new"] == pytest.approx(1 / 236)
    assert row["group_entropy"] == pytest.approx((2 + 3 / (2 * 200 * math.log(2))) / 2)


def test_nothing_new_covers_nothing_and_nothing_left_has_no_chance() -> None:
    rule = Parity(length=6, group=3)
    every = rule.enumerate()
    evaluate = Evaluator(rule, every[:5], EvaluationSettings())
    row = evaluated(evaluate, every[:5])
    assert row["coverage_new"] == 0 and math.isnan(row["distinct_new"]) and math.isnan(row["group_entropy"])
    evaluate = Evaluator(rule, every, EvaluationSettings())
    row, chance = evaluated(evaluate, every), chances(evaluate)
    for name in ("distinct_new", "coverage_new", "group_entropy"):
        assert math.isnan(row[name]) and chance[name] is None


@pytest.mark.parametrize(("room", "draws"), [(1, 1), (1, 4), (2, 5), (3, 4), (5, 3)])
def test_expected_distinct_is_the_mean_over_all_draws(room: int, draws: int) -> None:
    every = [len(set(drawn)) for drawn in itertools.product(range(room), repeat=draws)]
    assert expected_distinct(room, draws) == pytest.approx(np.mean(every) / draws, rel=1e-14)
    assert expected_coverage(room, draws) == pytest.approx(np.mean(every) / room, rel=1e-14)


@pytest.mark.parametrize("room", [2, 10**3, 2**24 - 4096, 10**12, 10**18, 10**30, 10**400])
def test_expected_distinct_is_exact_in_any_room(room: int) -> None:
    for draws in (1, 7, 2048):
        coverage = 1 - (1 - Fraction(1, room)) ** draws
        assert expected_distinct(room, draws) == pytest.approx(float(coverage * room / draws), rel=1e-13)
        assert expected_coverage(room, draws) == pytest.approx(float(coverage), rel=1e-13, abs=1e-307)


def test_expected_entropy_is_the_mean_over_all_draws() -> None:
    """Every sequence of six draws from contents of probabilities 0.3 (twice) and 0.4."""
    shares, mean = (0.3, 0.3, 0.4), 0.0
    for drawn in itertools.product(range(3), repeat=6):
        mean += math.prod(shares[i] for i in drawn) * float(entropy(torch.bincount(torch.tensor(drawn))))
    assert expected_entropy(6, [(2, 0.3), (1, 0.4)]) == pytest.approx(mean, rel=1e-12)
    assert expected_entropy(10**7, [(720, 1 / 720)]) == pytest.approx(math.log2(720), rel=1e-9)


@pytest.mark.parametrize(
    ("draws", "probability"), [(1, 0.5), (6, 0.3), (6, 1.0), (6, 0.0), (10**7, 1 / 720), (2048, 1e-300)]
)
def test_binomial_probabilities_are_those_of_scipy(draws: int, probability: float) -> None:
    count, chance = binomial(draws, probability)
    assert chance == pytest.approx(binom.pmf(count, draws, probability), rel=1e-6, abs=1e-12)
    assert chance.sum() == pytest.approx(1) and count @ chance == pytest.approx(draws * probability, rel=1e-9)


@pytest.mark.parametrize(
    ("rule", "rows", "samples"),
    [
        (Parity(length=36, group=3), 100, 50),
        (Parity(length=6, group=3), 13, 400),  # three samples are left, and no uniform groups
        (Parity(length=36, group=18), 50, 200),  # far fewer samples than contents
        (Latin(side=4), 400, 100),
        (CyclicLatin(side=4), 200, 100),
        (Sudoku(block_rows=2, block_cols=2), 100, 100),
        (GlobalK(side=4, ks=(1, 2)), 100, 60),
        (RandomHierarchy(depth=2, branching=2, vocabulary=6, synonyms=3), 60, 80),
        (RandomHierarchy(depth=3, branching=2, vocabulary=8, synonyms=4), 60, 40),
    ],
    ids=repr,
)
def test_chance_levels_are_those_of_true_samples(rule: Rule, rows: int, samples: int) -> None:
    evaluate = Evaluator(rule, training_set(rule, rows, seed=0), EvaluationSettings(samples=samples))
    found = [evaluated(evaluate, some) for some in rule.sample(400 * samples, seed=5).split(samples)]
    for name, chance in chances(evaluate).items():
        if name.endswith("_entropy") or name in ("distinct_new", "coverage_new"):
            values = [row[name] for row in found]
            scatter = np.nanstd(values) / math.sqrt(len(values))
            # The number of new samples is not the same at every evaluation, and pieces of a sample avoid each other;
            # estimated levels have a scatter of their own.
            few = 0.004 if rule.uniform_parts else 4 * np.nanstd(values) / 8
            assert chance == pytest.approx(np.nanmean(values), abs=4 * scatter + few), name


def test_a_uniform_piece_has_entropy_one_where_samples_are_many() -> None:
    for rule in (Parity(length=36, group=3), Latin(side=6), Sudoku()):
        levels = chances(Evaluator(rule, training_set(rule, 512), EvaluationSettings()))
        found = {name: level for name, level in levels.items() if name.endswith("_entropy")}
        assert found and all(level == pytest.approx(1, abs=1e-3) for level in found.values())


def test_pieces_that_are_whole_samples_or_have_one_content_have_no_entropy() -> None:
    for rule in (ExactK(length=9, k=3), Parity(length=8, group=8)):
        assert not any(name.endswith("_entropy") for name in chances(Evaluator(rule, rule.sample(3, 0), SETTINGS)))


SETTINGS = EvaluationSettings()


def test_rules_beyond_all_floats_have_chance_levels() -> None:
    rule = Parity(length=4000, group=2000)
    train = training_set(rule, 10)
    evaluate = Evaluator(rule, train, SETTINGS, holdout_set(rule, train))
    levels, row = chances(evaluate), evaluated(evaluate, rule.sample(64, 1))
    assert levels["distinct_new"] == 1 and levels["coverage_new"] == 0 and levels["holdout_memorization"] == 0
    all_differ = (12 + 4095 / (2 * 4096 * math.log(2))) / 1000  # the capped number of contents, in bits
    assert levels["group_entropy"] == pytest.approx(all_differ) and row["distinct_new"] == 1


def test_holdout_copies_are_counted_apart_from_copies() -> None:
    rule = Parity(length=12, group=3)
    train = training_set(rule, 20, seed=0)
    holdout = holdout_set(rule, train, seed=3)
    assert holdout is not None
    evaluate = Evaluator(rule, train, SETTINGS, holdout)
    mixed = torch.cat([train[:5], holdout[:3], cube_set(rule, 8, 0)])
    row = evaluated(evaluate, mixed)
    hits = sum(row.tolist() in holdout.tolist() for row in mixed)
    assert row["holdout_memorization"] == hits / 16 and 3 <= hits <= 5
    assert evaluated(evaluate, holdout)["holdout_memorization"] == 1
    assert evaluated(evaluate, train)["holdout_memorization"] == 0
    (metric,) = [metric for metric in evaluate.columns() if metric.name == "holdout_memorization"]
    assert (metric.chance_rule, metric.chance_cube) == (20 / 256, 20 / 4096) and metric.direction == "neither"
    assert "holdout_memorization" not in evaluated(Evaluator(rule, train, SETTINGS), mixed)
