"""Error rates of statements after many looks (interim analyses), by simulation with known truth."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy.special import chdtri
from scipy.stats import binom

from twoclocks.clocks import change_point, onset
from twoclocks.clocks.looks import least_samples, mean_bounds, rate_bounds, tails
from twoclocks.core.proportion import clopper_pearson


def false_onsets(runs: int = 400, **how: Any) -> float:
    """How often a rate of 4% is reported above 5%, over 100 looks at 2,048 samples each."""
    hits = np.random.default_rng(3).binomial(2048, 0.04, size=(runs, 100))
    return float(np.mean([onset(range(1, 101), row, 2048, threshold=0.05, **how).seen for row in hits]))


def test_false_onsets_are_rare_where_the_plain_first_crossing_finds_them_in_most_runs() -> None:
    assert false_onsets(sustain=1, confidence=0) > 0.6
    assert false_onsets(sustain=1) < 0.01 and false_onsets() < 0.01


def test_the_interval_holds_the_true_crossing_as_often_as_promised_and_soon() -> None:
    rng = np.random.default_rng(4)
    steps = np.unique(np.logspace(1, 4, 40).astype(int))
    rate = 0.3 / (1 + (steps / 2000.0) ** -3)
    true = 2000 / 2 ** (1 / 3)  # where the rate is 0.1
    held, late = 0, []
    for _ in range(400):
        found = onset(steps, rng.binomial(2048, rate), 2048, threshold=0.1)
        held += found.lower < true <= found.upper
        late.append(found.upper / true)
    assert held >= 380  # either end is wrong with probability 5% at most
    assert np.median(late) < steps[-1] / steps[-3]  # two evaluations


def test_bounds_hold_at_all_looks_together_where_those_of_one_look_do_not() -> None:
    """A rate that changes from look to look: some bound is wrong in 5% of the runs at most, on either side."""
    rate = np.linspace(0.02, 0.4, 200)
    hits = np.random.default_rng(5).binomial(50, rate, size=(500, 200)).astype(float)
    bounds = [rate_bounds(row, np.full(200, 50.0), 0.95) for row in hits]
    assert np.mean([(low > rate).any() for low, _ in bounds]) <= 0.05
    assert np.mean([(high < rate).any() for _, high in bounds]) <= 0.05
    assert np.mean([(clopper_pearson(row, 50, 0.025)[0] > rate).any() for row in hits]) > 0.5


def test_bounds_of_means_hold_at_all_looks_together() -> None:
    noise = np.random.default_rng(6).standard_normal((4000, 100))
    wrong = [(low > 0).any() for low, _ in (mean_bounds(row, np.ones(100), 0.9) for row in noise)]
    assert np.mean(wrong) == pytest.approx(
        0.1 * (1 - 1 / 101), abs=0.012
    )  # independent looks use up all that is permitted


def test_permitted_errors_add_up_and_do_not_depend_on_what_follows() -> None:
    assert tails(10**6, 0.9).sum() == pytest.approx(0.1, abs=1e-6)
    assert np.array_equal(tails(10, 0.9), tails(50, 0.9)[:10])


@pytest.mark.parametrize(("rate", "level"), [(0.0, 0.1), (1.0, 0.9), (0.03, 0.1)])
def test_least_samples_is_the_least(rate: float, level: float) -> None:
    need = least_samples(rate, level, 80, 0.95)
    for samples, excluded in ((need, True), (need - 1, False)):
        low, high = clopper_pearson(rate * samples, samples, tails(80, 0.95)[-1])
        assert bool(low > level if rate > level else high < level) == excluded


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (200, 2048)])
def test_clopper_pearson_against_its_definition(hits: int, trials: int) -> None:
    low, high = (float(end) for end in clopper_pearson(hits, trials, 0.01))
    assert low == 0 if hits == 0 else binom.sf(hits - 1, trials, low) == pytest.approx(0.01, rel=1e-6)
    assert high == 1 if hits == trials else binom.cdf(hits, trials, high) == pytest.approx(0.01, rel=1e-6)


def test_change_points_are_those_of_testing_every_cut_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The convex hull finds the largest ratio of all cuts; the full search is done where that could be enough."""
    module = sys.modules["twoclocks.clocks.change_point"]
    ratios, searched = module.likelihood_ratios, 0

    def counted(hit: Any, trial: Any) -> Any:
        nonlocal searched
        searched += 1
        return ratios(hit, trial)

    monkeypatch.setattr(module, "likelihood_ratios", counted)
    rng = np.random.default_rng(5)
    for case in range(120):
        length = int(rng.integers(2, 60))
        trials = rng.choice([1, 20, 1000], size=length).astype(float) if case % 2 else np.full(length, 256.0)
        before, after = rng.choice([0.0, 0.01, 0.3, 0.99, 1.0], size=2)
        rates = (
            np.where(np.arange(length) < length // 2, before, after) if case % 3 else np.linspace(before, after, length)
        )
        hits = rng.binomial(trials.astype(int), rates).astype(float)
        every = [float(ratios(hits[: last + 1], trials[: last + 1]).max()) for last in range(1, length)]
        assert list(module.largest_ratios(hits, trials)) == pytest.approx(every, rel=1e-9, abs=1e-7)
        levels = [chdtri(1, tail / last) for last, tail in enumerate(tails(length, 0.95)[1:], start=1)]
        detected = [last for last, (ratio, level) in enumerate(zip(every, levels, strict=True), 1) if ratio > level]
        searched, steps = 0, np.arange(length)
        assert change_point(steps, hits, trials).first_crossing == (float(detected[0]) if detected else None)
        assert searched == bool(detected), "quadratic: every cut was searched at looks that find nothing"


def test_change_points_are_found_where_they_are_and_nowhere_else() -> None:
    rng = np.random.default_rng(6)
    steps = np.arange(1, 61)
    alarms = [change_point(steps, rng.binomial(500, 0.03, 60), 500).seen for _ in range(300)]
    assert np.mean(alarms) <= 0.05
    rises = [change_point(steps, rng.binomial(500, np.where(steps < 31, 0.03, 0.12)), 500) for _ in range(100)]
    assert np.mean([one.lower <= 30 < one.upper and one.upper - one.lower <= 3 for one in rises]) >= 0.95
    for after in (0.045, 0.06):  # small changes are noticed late and located badly; the interval knows
        found = [change_point(steps, rng.binomial(500, np.where(steps < 31, 0.03, after)), 500) for _ in range(150)]
        assert np.mean([one.lower <= 30 < one.upper for one in found if one.seen]) >= 0.85
    assert not change_point(steps, rng.binomial(500, np.where(steps < 31, 0.12, 0.03)), 500).seen  # it fell
