"""Every registered metric keeps the contract; one from outside becomes a column; broken ones are caught."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.data import training_set
from twoclocks.data.encodings import Decoded
from twoclocks.evaluation import METRICS, Column, Count, EvaluationSettings, Evaluator, Metric, Samples, proportion
from twoclocks.report.listing import list_rows
from twoclocks.rules import GlobalK, Latin, Parity, RandomHierarchy, Rule
from twoclocks.testing import check_metric

RULES: list[tuple[Rule, int]] = [
    (Parity(length=12, group=3), 64),
    (Latin(side=4), 100),
    (GlobalK(side=4, ks=(1, 2)), 30),
    (RandomHierarchy(depth=2, branching=2, vocabulary=6, synonyms=2), 40),
]


@pytest.mark.parametrize("name", METRICS.names())
@pytest.mark.parametrize(("rule", "n"), RULES, ids=lambda value: type(value).__name__)
def test_every_metric_keeps_the_contract(name: str, rule: Rule, n: int) -> None:
    check_metric(METRICS.get(name), rule, n)


@pytest.mark.parametrize("name", METRICS.names())
def test_every_metric_keeps_the_contract_where_contents_are_omitted(name: str) -> None:
    check_metric(METRICS.get(name), Parity(length=12, group=3), 60, omit=1)


class Ones(Metric):
    """The share of ones at the first entry: a metric that somebody else might write."""

    name: ClassVar[str] = "first_entry_is_one"

    def columns(self) -> list[Column]:
        return [
            Column(
                name=self.name,
                about="samples that begin with a one",
                direction="neither",
                chance_rule=0.5,
                chance_cube=0.5,
            )
        ]

    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {self.name: proportion(samples.symbols[:, 0] == 1)}


class OutOfOrder(Ones):
    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {self.name: samples.symbols[:1, 0].double().sum()}


class TooMany(Ones):
    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {self.name: Count((samples.symbols == 1).sum())}


class NotWhole(Ones):
    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {self.name: Count((samples.symbols[:, 0] == 1).double().sum() / 2)}


class Infinite(Ones):
    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {self.name: torch.tensor(1.0) / (samples.symbols.sum() * 0)}


class OtherColumn(Ones):
    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {"something_else": proportion(samples.symbols[:, 0] == 1)}


class WrongChance(Ones):
    def columns(self) -> list[Column]:
        return [replace(column, chance_rule=0.4) for column in super().columns()]


class WrongCubeChance(Ones):
    def columns(self) -> list[Column]:
        return [replace(column, chance_cube=0.6) for column in super().columns()]


class NoMeaning(Ones):
    def columns(self) -> list[Column]:
        return [replace(column, about=" ") for column in super().columns()]


class NoDirection(Ones):
    def columns(self) -> list[Column]:
        return [replace(column, direction="up") for column in super().columns()]  # type: ignore[arg-type]


class Reserved(Ones):
    """Its column has a name that is not free."""

    column: ClassVar[str] = "step"

    def columns(self) -> list[Column]:
        return [replace(column, name=self.column) for column in super().columns()]

    def __call__(self, samples: Samples) -> Mapping[str, Any]:
        return {self.column: proportion(samples.symbols[:, 0] == 1)}


class Twice(Ones):
    def columns(self) -> list[Column]:
        return super().columns() * 2


BROKEN: dict[type[Metric], str] = {
    OutOfOrder: "depends on the order",
    TooMany: "outside of 0 to",
    NotWhole: "counts must be integers",
    Infinite: "use NaN",
    OtherColumn: "the values are",
    WrongChance: "chance_rule is 0.4",
    WrongCubeChance: "chance_cube is 0.6",
    NoMeaning: "what it means",
    NoDirection: "direction must be one of",
    Reserved: "choose another name",
    Twice: "already a column of the metric 'first_entry_is_one'; choose another name",
}


def outside(metric: type[Metric], monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered for the time of a test."""
    METRICS.names()  # entry points are loaded before the test's own metric comes
    monkeypatch.setattr(METRICS, "_members", dict(METRICS._members))
    METRICS.register(metric.name)(metric)


def test_a_metric_from_outside_is_a_column_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    outside(Ones, monkeypatch)
    rule = RULES[0][0]
    check_metric(Ones, rule)
    evaluate = Evaluator(rule, training_set(rule, 20), EvaluationSettings())
    samples = rule.sample(50, 1)
    row = evaluate.row(Decoded(samples, torch.zeros(50)))
    assert row["first_entry_is_one_hits"] == int((samples[:, 0] == 1).sum())
    assert evaluate.columns()[-1].name == Ones.name
    assert Ones.name in [row["metric"] for row in list_rows("metrics")]


@pytest.mark.parametrize("metric", BROKEN, ids=lambda metric: metric.__name__)
def test_a_broken_metric_is_caught(metric: type[Metric], monkeypatch: pytest.MonkeyPatch) -> None:
    outside(metric, monkeypatch)
    with pytest.raises(AssertionError, match=BROKEN[metric]):
        check_metric(metric, RULES[0][0])


NOT_FREE = {
    **dict.fromkeys(("step", "trials", "loss", "loss_train", "loss_x", "samples", "weights", "link"), "own values"),
    **dict.fromkeys(("x_hits", "x_trials"), "counts"),
    **{name: f"already a column of the metric '{name}'" for name in ("sample_memorization", "valid_new")},
    "group_accuracy": "already a column of the metric 'part_accuracy'",
    "": "has no name",
}


@pytest.mark.parametrize("column", NOT_FREE)
def test_a_metric_cannot_take_a_column_that_is_not_its_own(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would replace what the clocks are read from, or be replaced; so nothing is evaluated at all."""
    outside(Reserved, monkeypatch)
    monkeypatch.setattr(Reserved, "column", column)
    rule = RULES[0][0]
    line = f"column '{column}' .*{NOT_FREE[column]}.*; choose another name"
    with pytest.raises(UserError, match=f"metric 'first_entry_is_one': {line}"):
        Evaluator(rule, training_set(rule, 20), EvaluationSettings())
    with pytest.raises(AssertionError, match=line):
        check_metric(Reserved, rule)


def test_a_metric_cannot_return_a_column_that_it_does_not_describe(monkeypatch: pytest.MonkeyPatch) -> None:
    outside(OtherColumn, monkeypatch)
    rule = RULES[0][0]
    evaluate = Evaluator(rule, training_set(rule, 20), EvaluationSettings())
    with pytest.raises(UserError, match=r"metric 'first_entry_is_one': .*'something_else'.*columns\(\)"):
        evaluate.row(Decoded(rule.sample(5, 1), torch.zeros(5)))


def test_a_metric_that_is_not_registered_is_named() -> None:
    with pytest.raises(UnknownNameError, match="first_entry_is_one"):
        check_metric(Ones, RULES[0][0])
