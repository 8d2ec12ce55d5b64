"""Metrics against a slow version by hand, and chance levels against samples of the distributions they speak of."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from twoclocks.core.constants import CHANCE_SAMPLES
from twoclocks.core.counts import hits_of, scaled_hits, trials_of, values_of
from twoclocks.core.errors import UserError
from twoclocks.data import cube_set, holdout_set, training_set
from twoclocks.data.encodings import Decoded
from twoclocks.evaluation import EvaluationSettings, Evaluator, nearest_distance, neighbours
from twoclocks.rules import CyclicLatin, ExactK, GlobalK, Latin, Parity, RandomHierarchy, RowVariableK, Rule, Sudoku

RULE = Parity(length=12, group=3)
TRAIN = training_set(RULE, 20, seed=0)
EVALUATE = Evaluator(RULE, TRAIN, EvaluationSettings())


def decoded(symbols: torch.Tensor, distance: float = 0.0) -> Decoded:
    return Decoded(symbols, torch.full((len(symbols),), distance))


def slow(symbols: torch.Tensor) -> dict[str, float]:
    rows, train = [tuple(r) for r in symbols.tolist()], [tuple(r) for r in TRAIN.tolist()]
    groups = [r[i : i + 3] for r in rows for i in range(0, 12, 3)]
    known = {t[i : i + 3] for t in train for i in range(0, 12, 3)}
    valid = [all(sum(r[i : i + 3]) % 2 == 0 for i in range(0, 12, 3)) for r in rows]
    copied = [r in train for r in rows]
    near = [min(sum(a != b for a, b in zip(r, t, strict=True)) for t in train) for r in rows]
    new = [v and not c for v, c in zip(valid, copied, strict=True)]

    def mean(values: list[float]) -> float:
        return sum(values) / len(values) if values else math.nan

    return {
        "sample_accuracy": mean([float(v) for v in valid]),
        "sample_memorization": mean([float(c) for c in copied]),
        "valid_new": mean([float(n) for n in new]),
        "group_accuracy": mean([float(sum(g) % 2 == 0) for g in groups]),
        "group_memorization": mean([float(g in known) for g in groups]),
        "nearest_distance": mean([float(d) for d in near]),
        "nearest_distance_valid": mean([float(d) for d, v in zip(near, valid, strict=True) if v]),
        "nearest_distance_valid_new": mean([float(d) for d, n in zip(near, new, strict=True) if n]),
    }


@given(st.integers(0, 10**6), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_all_metrics_equal_a_slow_version(seed: int, n: int) -> None:
    mixed = torch.cat([cube_set(RULE, n, seed), RULE.sample(n, seed), TRAIN[: seed % 5]])
    found, expected = EVALUATE(decoded(mixed)), slow(mixed)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, nan_ok=True), name


def test_quantization_thresholds() -> None:
    x = Decoded(RULE.sample(4, 0), torch.tensor([0.05, 0.15, 0.3, 0.9]))
    row = EVALUATE(x)
    assert [row["invalid_0.1"], row["invalid_0.2"], row["invalid_0.5"]] == [0.75, 0.5, 0.25]
    assert row["quantization_distance"] == pytest.approx(0.35)


@pytest.mark.parametrize(
    ("rule", "rows"),
    [
        (Parity(length=12, group=3), 20),
        (Parity(length=12, group=6), 4),
        (ExactK(length=9, k=3), 20),
        (RowVariableK(side=3, ks=(1, 2)), 3),
        (GlobalK(side=4, ks=(1, 2)), 4),
        (Latin(side=4), 3),
        (CyclicLatin(side=4), 100),
        (Sudoku(block_rows=2, block_cols=2), 2),
        (RandomHierarchy(depth=2, branching=2, vocabulary=4, synonyms=2), 6),
    ],
    ids=repr,
)
def test_chance_levels_are_what_true_samples_and_cube_samples_give(rule: Rule, rows: int) -> None:
    n = 100_000
    scatter = 4 / math.sqrt(n if rule.uniform_parts else CHANCE_SAMPLES)
    train = training_set(rule, rows, seed=0)
    evaluate = Evaluator(rule, train, EvaluationSettings(samples=n), holdout_set(rule, train))
    rule_row, cube_row = evaluate(decoded(rule.sample(n, 9))), evaluate(decoded(cube_set(rule, n, 9)))
    checked = 0
    for metric in evaluate.columns():
        for chance, row in ((metric.chance_rule, rule_row), (metric.chance_cube, cube_row)):
            if chance is not None:
                assert row[metric.name] == pytest.approx(chance, abs=scatter), metric
                checked += 1
    assert checked >= 15


@pytest.mark.parametrize(
    "rule",
    [Parity(length=6, group=3), CyclicLatin(side=4), GlobalK(side=3, ks=(1, 2)), Sudoku(block_rows=2, block_cols=2)],
)
def test_chance_levels_of_whole_samples_are_exact(rule: Rule) -> None:
    """No tolerance: what a uniform draw from the rule, and from all arrays, would score."""
    n, arrays = 5, rule.symbols ** math.prod(rule.shape)
    found = {m.name: m for m in Evaluator(rule, training_set(rule, n, seed=0), EvaluationSettings()).columns()}
    assert found["sample_memorization"].chance_rule == n / rule.support()
    assert found["sample_memorization"].chance_cube == n / arrays
    assert found["valid_new"].chance_cube == pytest.approx((rule.count() - n) / arrays, rel=1e-12)
    for kind, piece in rule.parts(rule.empty(1)).items():
        if piece.shape[2] == math.prod(rule.shape):
            assert found[f"{kind}_memorization"].chance_rule == n / rule.support()


@pytest.mark.parametrize(
    "rule", [GlobalK(side=4, ks=(1, 2)), RandomHierarchy(depth=2, branching=2, vocabulary=6, synonyms=2)]
)
def test_chance_of_pieces_that_are_not_uniform_is_estimated(rule: Rule) -> None:
    """One training sample: its pieces come more or less often than uniform contents would."""
    kind = "row" if isinstance(rule, GlobalK) else "layer_1"
    for seed in range(20):
        evaluate = Evaluator(rule, training_set(rule, 2, seed=seed)[:1], EvaluationSettings())
        (chance,) = [m.chance_rule for m in evaluate.columns() if m.name == f"{kind}_memorization"]
        found = evaluate(decoded(rule.sample(50_000, seed=99)))[f"{kind}_memorization"]
        assert chance == pytest.approx(found, abs=0.02)


def test_every_column_has_a_meaning_and_every_meaning_a_column() -> None:
    for evaluate in (EVALUATE, Evaluator(RULE, TRAIN, EvaluationSettings(), holdout_set(RULE, TRAIN))):
        assert {metric.name for metric in evaluate.columns()} | {"trials"} == set(evaluate(decoded(TRAIN)))


def test_training_rows_are_all_copies_at_distance_zero() -> None:
    row = EVALUATE(decoded(TRAIN))
    assert row["sample_memorization"] == 1 and row["nearest_distance"] == 0 and row["valid_new"] == 0
    assert math.isnan(row["nearest_distance_valid_new"])


def test_samples_that_are_not_finite_are_an_error_not_a_miss() -> None:
    with pytest.raises(FloatingPointError):
        EVALUATE(decoded(TRAIN, math.nan))
    with pytest.raises(ValueError, match="outside"):
        EVALUATE(decoded(torch.full((2, 12), 7)))


class Waits(TorchDispatchMode):
    """Counts the operations for which the host would wait for a device, besides the fetching of whole tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(operation)
        masks = [index for index in args[1] if index is not None] if name.startswith("aten.index.") else []
        if any(word in name for word in ("_local_scalar_dense", "nonzero", "masked_select", "unique")):
            self.found.append(name)
        self.found += [name for mask in masks if mask.dtype == torch.bool]
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize("rule", [RULE, GlobalK(side=4, ks=(1, 2)), Sudoku(block_rows=2, block_cols=2)], ids=repr)
def test_an_evaluation_does_not_wait_for_single_numbers(rule: Rule) -> None:
    train, samples = training_set(rule, 9, seed=0), rule.sample(20, 0)
    evaluate = Evaluator(rule, train, EvaluationSettings(), holdout_set(rule, train))
    with Waits() as waits:
        evaluate(decoded(samples))
    assert not waits.found
    with waits:
        bool(samples.any()), samples[samples > 0]
    assert len(waits.found) == 2


def test_no_samples_have_no_mean() -> None:
    row = EVALUATE(decoded(TRAIN[:0]))
    assert row.pop("trials") == 0 and all(math.isnan(value) for value in row.values())


def test_neighbours_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = cube_set(RULE, 50, 1)
    whole = nearest_distance(samples, TRAIN)
    monkeypatch.setitem(neighbours.SIDES, "cpu", 7)
    assert torch.equal(whole, nearest_distance(samples, TRAIN))
    assert nearest_distance(samples[:0], TRAIN).shape == (0,)


def test_a_row_stores_integers_from_which_every_proportion_follows() -> None:
    mixed = torch.cat([cube_set(RULE, 30, 1), RULE.sample(30, 2), TRAIN[:7]])
    row, values = EVALUATE.row(decoded(mixed)), EVALUATE(decoded(mixed))
    hits = {key.removesuffix("_hits"): value for key, value in row.items() if key.endswith("_hits")}
    proportions = {"sample_accuracy", "sample_memorization", "valid_new", "group_accuracy", "group_memorization"}
    assert proportions | {"invalid_0.1", "distinct_new"} <= set(hits) and row["trials"] == 67
    assert all(type(value) is int for value in hits.values())
    assert row["sample_accuracy_hits"] == int(RULE.is_valid(mixed).sum()) and row["group_accuracy_trials"] == 67 * 4
    assert row["distinct_new_trials"] == row["valid_new_hits"]
    for name, count in hits.items():
        assert name not in row and count == hits_of(row, name) and values[name] == count / trials_of(row, name)


def test_counts_are_read_from_rows_of_both_formats() -> None:
    for hits, trials in ((7, 2048), (299, 300), (0, 3), (1, 3), (29, 100)):  # 0.29 · 100 is 28.999…
        old, new = {"trials": trials, "x": hits / trials}, {"trials": trials, "x_hits": hits}
        assert hits_of(old, "x") == hits_of(new, "x") == hits and values_of(new) == values_of(old)
    pieces = {"trials": 10, "x_hits": 45, "x_trials": 60}
    assert scaled_hits(pieces, "x") == scaled_hits({"trials": 10, "x": 0.75}, "x") == 7.5
    assert values_of(pieces) == {"trials": 10, "x": 0.75} and math.isnan(values_of({"trials": 0, "x_hits": 0})["x"])


@pytest.mark.parametrize("value", [math.nan, 0.55, 1 / 3])
def test_hits_of_an_old_row_are_refused_where_its_value_is_no_count_of_samples(value: float) -> None:
    with pytest.raises(UserError, match=r"'x' is .* of 8 samples, which is no count; read the value itself"):
        hits_of({"trials": 8, "x": value}, "x")


def test_copies_of_held_out_samples_are_counted_apart_from_copies_of_training_samples() -> None:
    holdout = holdout_set(RULE, TRAIN)
    assert holdout is not None
    evaluator = Evaluator(RULE, TRAIN, EvaluationSettings(), holdout)
    row = evaluator.row(decoded(torch.cat([holdout[:5], TRAIN[:3]])))
    assert (row["holdout_memorization_hits"], row["sample_memorization_hits"]) == (5, 3)


def test_columns_of_whole_samples_say_in_which_direction_they_are_good() -> None:
    evaluator = Evaluator(RULE, TRAIN, EvaluationSettings(), holdout_set(RULE, TRAIN))
    directions = {column.name: column.direction for column in evaluator.columns()}
    assert {name: directions[name] for name in directions if not name.startswith(("group", "nearest"))} == {
        "sample_accuracy": "higher is better",
        "sample_memorization": "higher is copying",
        "valid_new": "higher is better",
        "quantization_distance": "lower is better",
        **dict.fromkeys(("invalid_0.1", "invalid_0.2", "invalid_0.5"), "lower is better"),
        "holdout_memorization": "neither",
        "distinct_new": "higher is better",
        "coverage_new": "higher is better",
    }
    assert directions["group_accuracy"] == "higher is better"
    assert directions["group_memorization"] == "higher is copying"
