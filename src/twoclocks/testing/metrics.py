"""What every metric must do, whoever wrote it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

import torch

from twoclocks.core.counts import HITS_SUFFIX, TRIALS, TRIALS_SUFFIX, values_of
from twoclocks.data.sets import cube_set, holdout_set
from twoclocks.data.settings import DataSettings
from twoclocks.evaluation.evaluator import fetched, stored_form
from twoclocks.evaluation.metric import METRICS, Column, Direction, Metric, metrics_of, name_problem
from twoclocks.evaluation.samples import Reference, Samples
from twoclocks.evaluation.settings import EvaluationSettings
from twoclocks.rules.base import Rule

EVALUATIONS, SAMPLES = 24, 256  # on which a chance level is compared with what is measured
ERRORS = 5.0  # standard errors by which they may differ
ROUGH = 0.01  # and this much besides: chance levels may themselves be estimates, or hold for many samples only
ORDERS = 8  # in which the samples are shown


def check_metric(metric: type[Metric], rule: Rule, n: int = 16, omit: int = 0) -> None:
    """The metric says what it is, counts correctly, and its chance levels are what true samples measure.

    It is tried on a training set of ``n`` rows of the rule, without ``omit`` contents of its pieces. Give rules for
    which it has columns.
    """
    assert METRICS.get(metric.name) is metric, f"{metric.__name__}.name must be the name under which it is registered"
    data = DataSettings(n=n, omit=omit)
    train = data.training_set(rule)
    holdout, omitted = holdout_set(rule, train), data.omitted(rule)
    reference = Reference(rule, train, EvaluationSettings(samples=SAMPLES), holdout, omitted)
    made = metric(reference)
    others = [other for other in metrics_of(reference) if type(other) is not metric]
    taken = {column.name: other.name for other in others for column in other.columns()}
    for column in made.columns():
        check_words(column, taken)
        taken[column.name] = metric.name
    columns = {column.name: column for column in made.columns()}
    check_values(made, columns)
    check_chances(made, columns)


def check_words(column: Column, taken: Mapping[str, str]) -> None:
    """Its name is free, meaning and direction are there, chance levels are numbers; ``taken`` as ``name_problem``."""
    name = column.name
    problem = name_problem(name, taken)
    assert problem is None, f"column {name!r} {problem}; choose another name"
    assert column.about.strip(), f"column {name!r}: about must say what it means"
    assert column.direction in get_args(Direction), f"column {name!r}: direction must be one of {get_args(Direction)}"
    for chance in (column.chance_rule, column.chance_cube):
        assert chance is None or math.isfinite(chance), f"column {name!r}: a chance level is {chance}; use None"


def check_values(made: Metric, columns: Mapping[str, Column]) -> None:
    """One value per column, finite or NaN, the same in whatever order the samples come; counts are counts."""
    reference = made.reference
    generator = torch.Generator().manual_seed(0)
    some = [reference.rule.sample(SAMPLES, 1), cube_set(reference.rule, SAMPLES, 2), reference.train]
    symbols = torch.cat(some)
    distance = torch.rand(len(symbols), generator=generator)
    row = measured(made, Samples(reference, symbols, distance))
    empty = measured(made, Samples(reference, symbols[:0], distance[:0]))
    assert row.keys() == empty.keys(), "the columns must not depend on the samples"
    names = {key.removesuffix(HITS_SUFFIX) for key in row if not key.endswith(TRIALS_SUFFIX)}
    assert names == set(columns), f"columns() describes {sorted(columns)}, the values are {sorted(names)}"
    for key, value in row.items():
        assert math.isfinite(value) or math.isnan(value), f"{key} is {value}; use NaN where there is no value"
    for _ in range(ORDERS):
        order = torch.randperm(len(symbols), generator=generator)
        for key, value in measured(made, Samples(reference, symbols[order], distance[order])).items():
            first = row[key]
            same = math.isclose(value, first, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(value) and math.isnan(first))
            assert same, f"{key} depends on the order of the samples: {first}, {value}"
    for rows, count in ((row, len(symbols)), (empty, 0)):
        for key, hits in rows.items():
            if key.endswith(HITS_SUFFIX):
                trials = rows.get(key.removesuffix(HITS_SUFFIX) + TRIALS_SUFFIX, count)
                assert isinstance(hits, int) and isinstance(trials, int), f"{key}: counts must be integers"
                assert 0 <= hits <= trials, f"{key} is {hits}, outside of 0 to {trials} trials"


def check_chances(made: Metric, columns: Mapping[str, Column]) -> None:
    """Chance levels agree with what is measured on samples of the rule, and on uniform symbols."""
    reference = made.reference
    for kind, rows in {
        "chance_rule": reference.rule.sample(EVALUATIONS * SAMPLES, seed=11),
        "chance_cube": cube_set(reference.rule, EVALUATIONS * SAMPLES, seed=11),
    }.items():
        found = [proportions(made, Samples(reference, some, torch.zeros(len(some)))) for some in rows.split(SAMPLES)]
        for name, column in columns.items():
            chance = getattr(column, kind)
            values = torch.tensor([row[name] for row in found], dtype=torch.float64)
            values = values[~values.isnan()]
            if chance is None or not len(values):
                continue
            scatter = float(values.std()) if len(values) > 1 else 0.0
            rare = math.sqrt(max(chance * (1 - chance), 0.0) / SAMPLES)  # where no evaluation saw a hit
            allowed = ERRORS * max(scatter, rare) / math.sqrt(len(values)) + ROUGH
            mean = float(values.mean())
            assert abs(mean - chance) <= allowed, f"{name}: {kind} is {chance:.4g}, measured {mean:.4g} ± {allowed:.2g}"


def measured(made: Metric, samples: Samples) -> dict[str, float]:
    """The numbers of one evaluation, as they are stored."""
    row: dict[str, torch.Tensor | int] = {}
    for name, value in made(samples).items():
        row |= stored_form(name, value)
    return fetched(row) if row else {}


def proportions(made: Metric, samples: Samples) -> dict[str, float]:
    """The numbers of one evaluation, with proportions as floats."""
    return values_of({TRIALS: len(samples), **measured(made, samples)})
