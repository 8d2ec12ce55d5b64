"""P1's own collapse: runs of different N at one batch, on the time steps·batch/N."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest

from twoclocks.clocks import Onset, Series, collapse_over_sizes, onset
from twoclocks.clocks.size_collapse import spread_of
from twoclocks.core.errors import UserError

SIZES = (64, 128, 256, 512)  # an 8-fold range
BATCH = 32


def curves(power: float, end: float = 200_000, seeds: int = 1, top: float = 1.0, slope: float = 3.0) -> list[Series]:
    """Copies of runs whose memory clock is proportional to N^power, equal at N = 64, counted in 2,048 samples."""
    rng = np.random.default_rng(0)
    steps = np.unique(np.geomspace(10, end, 90).round())
    found = []
    for n in SIZES:
        rate = top / (1 + (steps / (900 * (n / 64) ** power)) ** -slope)
        found += [Series(steps, np.full(len(steps), 2048.0), rng.binomial(2048, rate)) for _ in range(seeds)]
    return found


def onsets_of(series: list[Series]) -> list[Onset]:
    return [onset(one.steps, one.copied, one.trials, 0.1) for one in series]


def repeated(seeds: int) -> list[int]:
    return [n for n in SIZES for _ in range(seeds)]


@pytest.mark.parametrize(("power", "answer"), [(1.0, "yes"), (0.5, "no"), (1.3, "no")])
@pytest.mark.parametrize("seeds", [1, 3])
def test_curves_of_a_known_power_collapse_or_do_not(power: float, answer: str, seeds: int) -> None:
    series = curves(power, seeds=seeds)
    found = collapse_over_sizes(repeated(seeds), BATCH, onsets_of(series), series)
    truth = 8 ** abs(power - 1)
    assert found.answer == answer and found.curve_answer == answer
    for spread in (found.onsets, *found.levels.values()):
        assert spread.low <= truth * 1.001 and spread.high >= truth and spread.within(1.5) == answer
        assert spread.likely is not None and spread.likely[0] < spread.likely[1]
        assert seeds > 1 or (spread.low <= spread.likely[0] and spread.likely[1] <= spread.high)
        assert spread.estimate == pytest.approx(truth, rel=0.1)
    assert set(found.levels) == {0.1, 0.3, 0.5, 0.9} and found.range == 8
    assert found.distance is not None and (found.distance < 0.1 if power == 1 else found.distance > 0.25)
    json.dumps(found.as_json(), allow_nan=False)
    assert ("without the scatter between seeds" in str(found)) == (seeds == 1)
    words = {"yes": "they collapse within ×1.5", "no": "they do not collapse within ×1.5"}[answer]
    assert words in str(found) and "N from 64 to 512" in str(found)


def test_times_are_samples_seen_per_training_sample() -> None:
    series = curves(1.0)
    found = collapse_over_sizes(SIZES, BATCH, onsets_of(series))
    crossing = 900 * 9 ** (-1 / 3)  # 10% copies at N = 64
    assert found.times[64].estimate == pytest.approx(crossing * BATCH / 64, rel=0.05)
    assert all(one.low <= crossing * BATCH / 64 <= one.high for one in found.times.values())
    assert found.levels == {} and found.curve_answer is None and found.distance is None


def test_a_censored_onset_gives_a_bound_only() -> None:
    """A run that ends before its onset: undecided where the collapse is still possible, refused where it is not."""
    onsets = [Onset(9.0 * n, 10.0 * n, "observed") for n in SIZES[:3]]
    for lower, answer in ((1000, "undecided"), (5600, "undecided"), (20_000, "no")):
        found = collapse_over_sizes(SIZES, BATCH, [*onsets, Onset(lower, math.inf, "right-censored")])
        assert found.answer == answer and found.censored == 1
        assert found.onsets.estimate is None and found.onsets.high == math.inf
        assert found.onsets.low == pytest.approx(max(1, lower / 5120)) and found.as_json()["onsets"]["high"] is None
        assert ("an unknown factor" if lower == 1000 else f"at least ×{found.onsets.low:.2f}") in str(found)
    left = collapse_over_sizes(SIZES, BATCH, [*onsets, Onset(0, 8000, "left-censored")])
    early = collapse_over_sizes(SIZES, BATCH, [*onsets, Onset(0, 1000, "left-censored")])
    assert left.answer == "undecided" and early.answer == "no"
    none = collapse_over_sizes(SIZES, BATCH, [Onset(100, math.inf, "right-censored")] * 4)
    assert none.answer == "undecided" and none.onsets.low == 1


def test_curves_that_end_low_leave_the_high_levels_undecided() -> None:
    series = curves(1.0, top=0.7)
    found = collapse_over_sizes(SIZES, BATCH, onsets_of(series), series)
    assert found.answer == "yes" and found.curve_answer == "undecided"
    assert [spread.within(1.5) for spread in found.levels.values()] == ["yes", "yes", "yes", "undecided"]
    assert "unknown at 90%, which too few runs reach" in str(found)


def test_onsets_may_collapse_while_curves_do_not() -> None:
    """Equal onsets, but the larger the size the slower the rise: only the higher levels show it."""
    steps = np.unique(np.geomspace(10, 2e6, 120).round())
    rates = [1 / (1 + 9 * (steps / (10 * n)) ** -slope) for n, slope in zip(SIZES, (6, 4, 2.5, 1.5), strict=True)]
    series = [Series(steps, np.full(len(steps), 2048.0), np.rint(2048 * rate)) for rate in rates]
    found = collapse_over_sizes(SIZES, BATCH, onsets_of(series), series)
    assert found.answer == "yes" and found.curve_answer == "no"
    assert found.distance is not None and found.distance > 0.3


def test_the_median_over_seeds_counts_not_the_extremes() -> None:
    """One censored run of three says nothing against the median; two of three leave it open."""
    onsets = [Onset(9.0 * n, 10.0 * n, "observed") for n in SIZES for _ in range(3)]
    onsets[0] = Onset(5000, math.inf, "right-censored")
    assert collapse_over_sizes(repeated(3), BATCH, onsets).answer == "yes"
    onsets[1] = Onset(700, math.inf, "right-censored")
    assert collapse_over_sizes(repeated(3), BATCH, onsets).answer == "undecided"


def test_scatter_between_seeds_widens_the_interval() -> None:
    """Three seeds per size that differ by a factor 1.3 both ways: their medians collapse, but not with confidence."""
    steps = np.unique(np.geomspace(10, 200_000, 90).round())
    rates = [1 / (1 + (steps / (14 * n * factor)) ** -4.0) for n in SIZES for factor in (1 / 1.3, 1, 1.3)]
    series = [Series(steps, np.full(len(steps), 2048.0), np.rint(2048 * rate)) for rate in rates]
    found = collapse_over_sizes(repeated(3), BATCH, onsets_of(series), series)
    assert found.onsets.estimate == pytest.approx(1, abs=0.05) and found.onsets.likely is not None
    assert found.onsets.likely[1] > 1.5 and found.answer == "undecided"


def test_bounds_are_the_extremes_over_all_values_in_the_intervals() -> None:
    """Against every combination of values on a fine grid."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        lower = rng.uniform(0, 1, 3)
        upper = lower + rng.uniform(0.02, 0.8, 3)
        choices = product(*(np.linspace(a, b, 25) for a, b in zip(lower, upper, strict=True)))
        spans = np.ptp(np.array(list(choices)), axis=1)
        found = spread_of(np.column_stack([lower, (lower + upper) / 2, upper]))
        assert math.log(found.low) == pytest.approx(spans.min(), abs=0.05)
        assert math.log(found.high) == pytest.approx(spans.max(), abs=1e-9)


def test_what_is_no_test_of_sizes_is_refused() -> None:
    onsets = [Onset(10, 20, "observed")] * 4
    with pytest.raises(UserError, match="at least 2 sizes"):
        collapse_over_sizes([64] * 4, BATCH, onsets)
    with pytest.raises(UserError, match="batch: 0"):
        collapse_over_sizes(SIZES, 0, onsets)
    with pytest.raises(UserError, match="one per size"):
        collapse_over_sizes(SIZES, BATCH, onsets[:3])
    with pytest.raises(UserError, match="different definitions"):
        collapse_over_sizes(SIZES, BATCH, [*onsets[:2], *(Onset(10, 20, "observed", definition=d) for d in "ab")])
    with pytest.raises(UserError, match="curves: 1"):
        collapse_over_sizes(SIZES, BATCH, onsets, curves(1.0)[:1])
    with pytest.raises(UserError, match="factor"):
        collapse_over_sizes(SIZES, BATCH, onsets, factor=0.9)
