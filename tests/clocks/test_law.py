from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from twoclocks.clocks import Law, Onset, collapse, fit_law, variance_split
from twoclocks.clocks.law import log_intervals
from twoclocks.clocks.regression import Family, Regression, log_probability
from twoclocks.core.errors import UserError

SIZES = [64, 128, 256, 512, 1024, 2048]
GRID = np.concatenate([[0], np.unique(np.logspace(1, 6, 120).astype(int))])


def seen_through(grid: Any, time: float, end: float) -> Onset:
    """A time as evaluations at ``grid`` see it, the last of them at ``end``."""
    looks = grid[grid <= end]
    index = int(np.searchsorted(looks, time))
    if index == len(looks):
        return Onset(float(looks[-1]), math.inf, "right-censored")
    return Onset(float(looks[index - 1]), float(looks[index]), "observed")


def simulate(seed: int, end: float, alpha: float = 1.0, repeats: int = 3) -> tuple[list[int], list[Onset], list[float]]:
    """Log-normal onsets of known law, seen through a grid of evaluations."""
    rng = np.random.default_rng(seed)
    sizes = SIZES * repeats
    times = [30.0 * n**alpha * math.exp(0.25 * rng.standard_normal()) for n in sizes]
    return sizes, [seen_through(GRID, time, end) for time in times], times


def test_exact_law_is_recovered() -> None:
    law = fit_law(SIZES, [Onset(20 * n**1.1 * 0.99, 20 * n**1.1 * 1.01, "observed") for n in SIZES])
    assert law.alpha == pytest.approx(1.1, abs=1e-3) and law.a == pytest.approx(20, rel=0.01)
    assert law.predict(4096) == pytest.approx(20 * 4096**1.1, rel=0.01)
    assert law.alpha_ci[0] < law.alpha < law.alpha_ci[1]
    assert law.r_squared == pytest.approx(1, abs=1e-4) and law.sizes == tuple(SIZES)


@pytest.mark.slow
def test_a_quarter_of_censored_runs_does_not_bias_the_exponent_where_dropping_and_capping_do() -> None:
    """α = 1 over 150 repeats; and the 95% intervals hold it, the law and a new run, as often as they say."""
    kept, dropped, capped, covered, held, foreseen, open_ended = [], [], [], 0, [], 0, []
    for seed in range(150):
        sizes, onsets, _ = simulate(seed, end=35_000, repeats=2)
        law = fit_law(sizes, onsets)
        kept.append(law.alpha)
        covered += law.alpha_ci[0] <= 1.0 <= law.alpha_ci[1]
        held.append(holds(law, SIZES))
        new = 30.0 * 8192 * math.exp(0.25 * np.random.default_rng((seed, 1)).standard_normal())
        low, high = law.predict_interval(8192)
        foreseen += low <= new <= high
        open_ended.append(law.censored / law.points)
        pairs = list(zip(sizes, onsets, strict=True))
        dropped.append(slope([(n, one) for n, one in pairs if one.seen]))
        capped.append(
            slope([(n, one if one.seen else Onset(one.lower * 0.99, one.lower, "observed")) for n, one in pairs])
        )
    assert np.mean(open_ended) == pytest.approx(0.25, abs=0.03)
    assert np.mean(kept) == pytest.approx(1.0, abs=0.012)
    assert np.mean(dropped) < 0.98 and np.mean(capped) < 0.9
    assert 0.90 <= covered / 150 <= 0.98
    assert 0.89 <= foreseen / 150 <= 0.99
    assert np.mean(held, axis=0) == pytest.approx(0.95, abs=0.04)


def holds(law: Law, sizes: list[int]) -> list[bool]:
    """Whether the interval of the law holds the true median, at each size."""
    ends = {n: law.median_interval(n) for n in sizes}
    return [low <= 30.0 * n <= high for n, (low, high) in ends.items()]


def slope(pairs: list[tuple[int, Onset]]) -> float:
    """Least squares, as one would without thinking of censoring."""
    x, y = np.array([(math.log(n), math.log(one.estimate or 1)) for n, one in pairs]).T
    return float(np.polyfit(x, y, 1)[0])


@pytest.mark.slow
def test_nearly_half_of_the_runs_censored_costs_precision_and_not_coverage() -> None:
    covered, foreseen = [], []
    for seed in range(100):
        sizes, onsets, _ = simulate(seed, end=15_000, repeats=2)
        law = fit_law(sizes, onsets)
        covered.append(law.alpha_ci[0] <= 1.0 <= law.alpha_ci[1])
        new = 30.0 * 8192 * math.exp(0.25 * np.random.default_rng((seed, 1)).standard_normal())
        low, high = law.predict_interval(8192)
        foreseen.append(low <= new <= high)
    assert np.mean(covered) > 0.9 and np.mean(foreseen) > 0.9


@pytest.mark.slow
def test_four_runs_foresee_the_fifth_as_often_as_they_say() -> None:
    foreseen, held = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        onsets = [seen_through(GRID, 30.0 * n * math.exp(0.25 * rng.standard_normal()), 1e6) for n in FOUR]
        new = 30.0 * 2048 * math.exp(0.25 * rng.standard_normal())
        law = fit_law(FOUR, onsets)
        low, high = law.predict_interval(2048)
        foreseen.append(low <= new <= high)
        held.append(holds(law, FOUR))
    assert np.mean(foreseen) == pytest.approx(0.95, abs=0.03)
    assert np.mean(held, axis=0) == pytest.approx(0.95, abs=0.04)


def test_runs_that_say_nothing_do_not_sharpen_the_law() -> None:
    sizes, onsets, _ = simulate(3, end=10**6, repeats=1)
    empty = [Onset(0, math.inf, "right-censored")] * 30
    alone, crowd = fit_law(sizes, onsets), fit_law([*sizes, *SIZES * 5], [*onsets, *empty])
    assert crowd.alpha_ci == pytest.approx(alone.alpha_ci, abs=0.02)
    assert crowd.predict_interval(4096) == pytest.approx(alone.predict_interval(4096), rel=0.05)


def test_a_censored_run_far_from_the_others_counts() -> None:
    """Three runs on a line and one that lasted ten times longer: the search must not stay on the line."""
    near = [Onset(10 * n * 0.999, 10 * n * 1.001, "observed") for n in (64, 128, 256)]
    law = fit_law([64, 128, 256, 512], [*near, Onset(51_200, math.inf, "right-censored")])
    assert law.scatter > 0.3 and law.alpha > 1.3
    regression = Regression(
        np.column_stack([np.ones(4), np.log([0.5, 1, 2, 4])]),
        *log_intervals([*near, Onset(51_200, math.inf, "right-censored")]),
    )
    best = regression.fit()
    for start in ((8.0, 1.0, 0.0), (6.0, 2.0, 1.0), (7.0, 0.0, -1.0)):
        assert regression.fit(start=np.array(start))[0] > best[0] - 1e-3


def test_the_median_is_the_median_in_both_families() -> None:
    rng = np.random.default_rng(5)
    sizes = [100] * 150 + [200] * 150 + [400] * 150 + [800] * 150
    times = [10 * n * (-math.log(rng.random())) ** 0.6 for n in sizes]
    onsets = [Onset(0.99 * time, 1.01 * time, "observed") for time in times]
    law = fit_law(sizes, onsets, "Weibull")
    assert law.predict(200) == pytest.approx(2000 * math.log(2) ** 0.6, rel=0.05)


def test_intervals_are_no_wider_than_least_squares_would_make_them() -> None:
    widths = []
    for seed in range(40):
        sizes, onsets, _ = simulate(seed, end=10**6, repeats=1)
        low, high = fit_law(sizes, onsets).alpha_ci
        widths.append(high - low)
    x = np.log(np.array(SIZES))
    expected = 2 * student.ppf(0.975, len(x) - 2) * 0.25 / np.sqrt(((x - x.mean()) ** 2).sum())
    assert float(np.median(widths)) == pytest.approx(expected, rel=0.35)


@pytest.mark.parametrize("family", ["log-normal", "Weibull"])
def test_fit_is_that_of_lifelines(family: Family) -> None:
    lifelines, pandas = pytest.importorskip("lifelines"), pytest.importorskip("pandas")
    sizes, onsets, _ = simulate(7, end=35_000)
    frame = pandas.DataFrame(
        {
            "lower": [one.lower for one in onsets],
            "upper": [one.upper for one in onsets],
            "x": np.log(np.array(sizes, dtype=float)),
        }
    )
    fitter = {"log-normal": lifelines.LogNormalAFTFitter, "Weibull": lifelines.WeibullAFTFitter}[family]()
    fitter.fit_interval_censoring(frame, "lower", "upper")
    law = fit_law(sizes, onsets, family)
    name, rest = ("mu_", "sigma_") if family == "log-normal" else ("lambda_", "rho_")
    assert law.alpha == pytest.approx(float(fitter.params_[name, "x"]), abs=2e-3)
    scale = math.exp(float(fitter.params_[rest, "Intercept"]))
    median = 0.0 if family == "log-normal" else math.log(math.log(2)) / scale  # ours is that of the median
    assert math.log(law.a) == pytest.approx(float(fitter.params_[name, "Intercept"]) + median, abs=2e-2)
    assert law.scatter == pytest.approx(scale if family == "log-normal" else 1 / scale, rel=0.02)


@pytest.mark.parametrize("family", ["log-normal", "Weibull"])
def test_gradient_of_the_likelihood(family: Family) -> None:
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(12), rng.normal(size=12)])
    middle = design @ [1.0, 0.5] + 0.4 * rng.normal(size=12)
    lower, upper = middle - 0.1, middle + 0.1
    upper[3], lower[5] = np.inf, -np.inf
    regression, where = Regression(design, lower, upper, family), np.array([0.8, 0.3, -0.7])
    slopes = [(regression.loss(where + step)[0] - regression.loss(where - step)[0]) / 2e-6 for step in 1e-6 * np.eye(3)]
    assert np.allclose(regression.loss(where)[1], slopes, rtol=1e-5)


def test_probability_of_an_interval_is_exact_far_out() -> None:
    mpmath = pytest.importorskip("mpmath")  # torch brings it
    for low, high in ((30.0, 30.1), (-30.1, -30.0), (-1.0, 2.0), (-np.inf, -12.0), (9.0, np.inf)):
        with mpmath.workdps(300):
            truth = float(mpmath.log(mpmath.ncdf(high) - mpmath.ncdf(low)))
        assert float(log_probability(np.array([low]), np.array([high]), "log-normal")[0][0]) == pytest.approx(
            truth, rel=1e-9
        )


def test_onsets_that_say_nothing_do_no_harm() -> None:
    onsets = [Onset(n / 10, n / 5, "observed") for n in (64, 128, 256)]
    law = fit_law([64, 128, 256, 512], [*onsets, Onset(0, math.inf, "right-censored")])
    assert math.isfinite(law.alpha) and law.alpha == pytest.approx(1.0, abs=0.1)


FOUR = [64, 128, 256, 512]


@pytest.mark.parametrize(
    ("sizes", "onsets", "word"),
    [
        ([64] * 4, [Onset(1, 2, "observed")] * 4, "at least 4 sizes"),
        ([64, 128, 256], [Onset(1, 2, "observed")] * 3, "at least 4 sizes"),
        ([], [], "positive"),
        (FOUR, [Onset(9, math.inf, "right-censored")] * 4, "not identified"),
        (
            FOUR,
            [*[Onset(9, math.inf, "right-censored")] * 2, *[Onset(1, 2, "observed")] * 2],
            "observed at 2 sizes only",
        ),
        ([1000, 1001, 1002, 1003], [Onset(10.0**k, 2 * 10.0**k, "observed") for k in range(4)], "no law fits"),
        (FOUR, [Onset(1, 2, "observed")] * 2, "one per size"),
        (FOUR, [Onset(0, 0, "left-censored"), *[Onset(1, 2, "observed")] * 3], "step 0"),
        (FOUR, [10, 20, 30, 40], "Onset objects"),
        ([0, 128, 256, 512], [Onset(1, 2, "observed")] * 4, "positive"),
        (FOUR, [Onset(1, 2, "observed", definition=str(n % 100)) for n in FOUR], "different definitions"),
    ],
)
def test_onsets_that_cannot_be_fitted_are_refused(sizes: list[int], onsets: list[Onset], word: str) -> None:
    with pytest.raises(UserError, match=word):
        fit_law(sizes, onsets)


@pytest.mark.parametrize(("n", "level", "word"), [(0, 0.95, "n: 0"), (64, 1.0, "level"), (math.nan, 0.9, "n: nan")])
def test_impossible_predictions_are_refused(n: float, level: float, word: str) -> None:
    law = fit_law(SIZES, [Onset(n, 2 * n, "observed") for n in SIZES])
    with pytest.raises(UserError, match=word):
        law.predict_interval(n, level)
    with pytest.raises(UserError, match=word):
        law.median_interval(n, level)


def crossed(time: Callable[[int, int], float], end: float = 1e6) -> tuple[list[int], list[int], list[Onset]]:
    rng = np.random.default_rng(1)
    runs = [(n, b) for n in (128, 256, 512, 1024) for b in (32, 128, 512)]
    onsets = [seen_through(GRID, time(n, b) * math.exp(0.1 * rng.standard_normal()), end) for n, b in runs]
    return [n for n, _ in runs], [b for _, b in runs], onsets


def test_collapse_distinguishes_samples_seen_from_steps() -> None:
    """Memory by samples seen, by steps, and by the root of the batch; some runs censored."""
    for end in (1e6, 6000):
        seen = collapse(*crossed(lambda n, b: 1000 * n / b, end))
        assert seen.better == "steps·batch/N" and seen.evidence > 10 and seen.samples_spread < seen.steps_spread / 3
        assert seen.batch_power_ci[0] < -1 < seen.batch_power_ci[1] < -0.9
    steps = collapse(*crossed(lambda n, b: 10 * n))
    assert steps.better == "steps/N" and steps.evidence < -10 and steps.batch_power_ci[0] < 0 < steps.batch_power_ci[1]
    root = collapse(*crossed(lambda n, b: 100 * n / math.sqrt(b)))
    assert root.batch_power == pytest.approx(-0.5, abs=0.05) and root.size_power == pytest.approx(1, abs=0.1)


def test_collapse_refuses_runs_that_cannot_distinguish() -> None:
    onsets = [Onset(10, 20, "observed")] * 4
    with pytest.raises(UserError, match="cannot be distinguished"):
        collapse(FOUR, [64] * 4, onsets)
    with pytest.raises(UserError, match="cross batches and sizes"):
        collapse(FOUR, FOUR, onsets)
    with pytest.raises(UserError, match="one positive number"):
        collapse(FOUR, [64] * 3, onsets)


def test_variance_is_split_between_seeds_as_it_was_made() -> None:
    rng = np.random.default_rng(2)
    pairs = [(i, d) for i in range(12) for d in range(10)]
    found, idle = [], []
    for _ in range(60):
        init, data, rest = 0.3 * rng.standard_normal(12), 0.1 * rng.standard_normal(10), 0.2 * rng.standard_normal(120)
        values = [init[i] + data[d] + e for (i, d), e in zip(pairs, rest, strict=True)]
        split = variance_split([i for i, _ in pairs], [d for _, d in pairs], values)
        found.append((split.training, split.data, split.rest))
        idle.append(variance_split([i for i, _ in pairs], [d for _, d in pairs], list(rest)).training_p)
    assert np.mean(found, axis=0) == pytest.approx([0.09, 0.01, 0.04], rel=0.2)
    assert np.mean(np.array(idle) < 0.1) == pytest.approx(0.1, abs=0.1)  # where the seed has no effect, p is uniform
    one_sided = variance_split([0, 0, 0, 1, 1, 1], [0, 1, 2] * 2, [0.0, 1.0, 2.0, 0.1, 0.9, 2.1])
    assert one_sided.data_p < 0.01 < 0.5 < one_sided.training_p


@pytest.mark.parametrize(
    ("training", "data", "values", "word"),
    [
        ([0, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], "missing"),
        ([0, 1], [0, 0], [1.0, 2.0], "at least 2"),
        ([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, math.nan, 3.0], "not observed"),
        ([0, 0], [0, 0], [1.0, 2.0], "twice"),
    ],
)
def test_seeds_that_are_not_crossed_are_refused(
    training: list[int], data: list[int], values: list[float], word: str
) -> None:
    with pytest.raises(UserError, match=word):
        variance_split(training, data, values)


def test_open_ends_have_infinite_logarithms() -> None:
    lower, upper = log_intervals([Onset(0, 5, "left-censored"), Onset(7, math.inf, "right-censored")])
    assert np.isneginf(lower[0]) and np.isposinf(upper[1])


def test_a_fit_that_shows_no_law_says_why() -> None:
    sizes = [16, 32, 64, 128, 256]
    flat = fit_law(sizes, [Onset(90, 110, "observed"), Onset(80, 100, "observed")] * 2 + [Onset(90, 110, "observed")])
    assert "contains 0" in flat.weakness
    law = fit_law(sizes, [Onset(9 * n, 11 * n, "observed") for n in sizes])
    assert law.weakness == ""
    assert "R² is 0.49, below 0.5" in replace(law, r_squared=0.49).weakness
    assert replace(law, r_squared=0.5).weakness == "" and replace(law, r_squared=None).weakness == ""
    assert replace(law, alpha_ci=(0.0, 2.0)).weakness and not replace(law, alpha_ci=(0.01, 2.0)).weakness
