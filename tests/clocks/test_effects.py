"""Effects in paired experiments: against Student's paired test and least squares, and on simulated truth."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from twoclocks.clocks.effects import Effect, Span, fit_effects, holm
from twoclocks.core.errors import UserError

NARROW = 1e-4  # half the width of an interval in ln τ: as good as a number


def span(log: float, half: float = NARROW) -> Span:
    return Span(math.exp(log - half), math.exp(log + half))


def experiment(logs: np.ndarray[Any, Any]) -> tuple[list[int], list[str | None], list[Span]]:
    """Runs of ln τ (seeds, arms); arm 0 is the base."""
    seeds, arms, times = [], [], []
    for seed, arm in itertools.product(range(logs.shape[0]), range(logs.shape[1])):
        seeds.append(seed)
        arms.append(None if arm == 0 else f"arm{arm}")
        times.append(span(float(logs[seed, arm])))
    return seeds, arms, times


def test_one_intervention_is_students_paired_test() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(7, 0.2, (6, 1)) + rng.normal([0.0, 0.3], 0.15, (6, 2))
    effect = fit_effects(*experiment(logs))["arm1"]
    difference = logs[:, 1] - logs[:, 0]
    expected = stats.ttest_1samp(difference, 0.0)
    assert effect.ratio == pytest.approx(math.exp(difference.mean()), rel=1e-3)
    assert effect.p == pytest.approx(expected.pvalue, rel=0.02)
    interval = expected.confidence_interval(0.95)
    assert np.log(effect.interval) == pytest.approx([interval.low, interval.high], abs=2e-3)
    assert effect.adjusted == effect.p


def test_several_interventions_are_least_squares_with_blocks() -> None:
    rng = np.random.default_rng(1)
    logs = rng.normal(7, 0.3, (4, 1)) + rng.normal([0.0, 0.5, 0.0, -0.4], 0.1, (4, 4))
    effects = fit_effects(*experiment(logs))
    differences = logs[:, 1:] - logs[:, :1]
    residual = logs - logs.mean(0) - logs.mean(1, keepdims=True) + logs.mean()
    freedom = 3 * 3
    error = math.sqrt((residual**2).sum() / freedom * 2 / 4)
    reach = stats.t.ppf(0.975, freedom) * error
    for number, one in enumerate(effects.values()):
        middle = differences[:, number].mean()
        assert math.log(one.ratio) == pytest.approx(middle, abs=1e-3)
        assert np.log(one.interval) == pytest.approx([middle - reach, middle + reach], abs=5e-3)


def test_runs_that_never_copy_give_a_bound_and_no_estimate() -> None:
    seeds, arms, times = experiment(np.log([[1000, 1000], [900, 1000], [1100, 1000]]))
    times = [Span(4000, math.inf) if arm else time for arm, time in zip(arms, times, strict=True)]
    effect = fit_effects(seeds, arms, times)["arm1"]
    assert effect.ratio == math.inf and effect.interval[1] == math.inf and effect.interval[0] > 2
    assert effect.censored == 3 and effect.as_json()["ratio"] is None


def test_an_intervention_that_helps_one_seed_alone_is_not_found() -> None:
    """The scatter that all share is small, so without its own scatter this one would count."""
    logs = np.full((3, 13), 7.0) + np.random.default_rng(2).normal(0, 0.05, (3, 13))
    logs[:, 4] += [0.8, 0.2, 0.0]
    one = fit_effects(*experiment(logs))["arm4"]
    assert one.uneven and not one.is_found and one.interval[0] > 1
    logs[:, 4] = 7.4
    assert fit_effects(*experiment(logs))["arm4"].is_found


@pytest.mark.parametrize("chances", [[0.01, 0.04, 0.03, 0.5], [0.9, 0.001], [0.2], [0.02, 0.02, 0.02]])
def test_holm_is_its_definition(chances: list[float]) -> None:
    """Reject in the order of p while p ≤ α/(m − rank): the smallest α that rejects, found on a fine grid."""
    found = holm({str(k): Effect(str(k), 1.0, (1.0, 1.0), p, 1.0, 3, 0) for k, p in enumerate(chances)})

    def rejected(alpha: float) -> set[str]:
        order, names = sorted(range(len(chances)), key=lambda k: chances[k]), set()
        for rank, k in enumerate(order):
            if chances[k] > alpha / (len(chances) - rank):
                break
            names.add(str(k))
        return names

    for name, one in found.items():
        if one.adjusted < 1:
            assert name in rejected(one.adjusted + 1e-9) and name not in rejected(one.adjusted - 1e-6)
        else:
            assert name not in rejected(0.999)


def test_an_intervention_that_never_copies_costs_the_others_no_degrees_of_freedom() -> None:
    """Its runs say nothing about the scatter, so nothing is to be subtracted for its effect either."""
    rng = np.random.default_rng(3)
    seeds, arms, times = experiment(7 + rng.normal(0, 0.3, (3, 1)) + rng.normal(0, 0.1, (3, 3)))
    alone = fit_effects(seeds, arms, times)
    never = [Span(1e6, math.inf)] * 3
    beside = fit_effects([*seeds, 0, 1, 2], [*arms, *["never"] * 3], [*times, *never])
    assert beside["never"].interval[0] > 1 and math.isinf(beside["never"].interval[1])
    for name in ("arm1", "arm2"):
        assert beside[name].p == pytest.approx(alone[name].p, rel=1e-2)
        assert beside[name].interval == pytest.approx(alone[name].interval, rel=1e-2)


def simulated(rng: np.random.Generator, factor: float, spacing: float = 0.14) -> dict[str, Effect]:
    """Three seeds, four interventions of which the first has an effect; onsets are read at log-spaced evaluations."""
    logs = 7 + rng.normal(0, 0.3, (3, 1)) + rng.normal([0.0, math.log(factor), 0.0, 0.0, 0.0], 0.15, (3, 5))
    seeds, arms, _ = experiment(logs)
    starts = np.floor(logs.flatten() / spacing) * spacing
    return fit_effects(seeds, arms, [Span(math.exp(at), math.exp(at + spacing)) for at in starts])


@pytest.mark.slow
def test_error_rates_are_those_that_are_stated() -> None:
    """results/widen_errors.json has the same with more repeats: 5% of experiments may find what is not there."""
    rng = np.random.default_rng(5)
    null = [simulated(rng, 1.0) for _ in range(60)]
    assert sum(any(one.is_found for one in effects.values()) for effects in null) <= stats.binom.ppf(0.999, 60, 0.05)
    held = [one.interval[0] <= 1 <= one.interval[1] for effects in null for one in effects.values()]
    assert np.mean(held) > 0.9
    twice = [simulated(rng, 2.0) for _ in range(30)]
    assert np.mean([effects["arm1"].is_found for effects in twice]) > 0.6
    assert sum(any(effects[name].is_found for name in ("arm2", "arm3", "arm4")) for effects in twice) <= 6


@pytest.mark.parametrize(
    ("seeds", "arms", "message"),
    [
        ([0, 0], [None, "a"], "seeds: 1 cannot show"),
        ([0, 1], [None, None], "treatments: give runs with and without"),
        ([0, 0, 1, 1], [None, "a", None, None], "a seed occurs twice"),
        ([0, 0, 1], [None, "a", "a"], "seed 1 of a has no run of the base"),
    ],
)
def test_what_is_no_paired_experiment_is_refused(seeds: list[int], arms: list[str | None], message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit_effects(seeds, arms, [span(7.0) for _ in seeds])
