from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoclocks as tc
from twoclocks.clocks import Clocks, ClockSettings, Onset, onset
from twoclocks.core.errors import SettingError, UserError

STEPS = [10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ([0, 0, 5, 6, 7, 8], (20, 30, "observed", 30)),
        ([0, 9, 0, 6, 7, 8], (30, 40, "observed", 20)),  # a single spike does not count
        ([5, 6, 7, 8, 9, 9], (0, 10, "left-censored", 10)),
        ([0, 0, 0, 0, 0, 0], (60, math.inf, "right-censored", None)),
        ([0, 0, 0, 0, 9, 9], (40, math.inf, "right-censored", 50)),  # a streak cut short proves nothing
        ([9, 9, 0, 0, 9, 9], (40, math.inf, "right-censored", 10)),
        ([9, 9, 0, 0, 9, 0], (60, math.inf, "right-censored", 10)),
        ([3, 3, 3, 4, 4, 4], (30, 40, "observed", 40)),  # equal to the threshold is not above it
    ],
)
def test_first_sustained_crossing(hits: list[int], expected: tuple[float, float, str, float | None]) -> None:
    found = onset(STEPS, hits, 10, threshold=0.3, sustain=3)
    assert (found.lower, found.upper, found.status, found.first_crossing) == expected


def test_onset_that_is_there_before_the_first_update() -> None:
    found = onset([0, 10, 20, 30], [9, 9, 9, 9], 10, threshold=0.3)
    assert (found.lower, found.upper, found.status, str(found)) == (0, 0, "left-censored", "by 0")
    assert Clocks(found, seen(10, 20)).verdict == "open"


def test_a_streak_from_the_first_evaluation_on_that_is_cut_short() -> None:
    found = onset([10, 20], [9, 9], 10, threshold=0.3, sustain=3)
    assert (found.lower, found.upper, found.status) == (0, math.inf, "right-censored")


@given(st.lists(st.integers(0, 10), min_size=1, max_size=40), st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_onset_against_a_slow_definition(hits: list[int], sustain: int) -> None:
    steps = [7 * (i + 1) for i in range(len(hits))]
    found = onset(steps, hits, 10, threshold=0.45, sustain=sustain)
    starts = [i for i in range(len(hits) - sustain + 1) if all(h >= 5 for h in hits[i : i + sustain])]
    if not starts:
        assert found.status == "right-censored"
    else:
        assert found.upper == steps[starts[0]]
        assert found.lower == (steps[starts[0] - 1] if starts[0] else 0)


def test_trials_may_differ_between_evaluations() -> None:
    assert onset([1, 2, 3], [1, 50, 500], [10, 100, 1000], threshold=0.4, sustain=2).upper == 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([], [], 10, 0.5), "empty"),
        (([1, 1], [1, 1], 10, 0.5), "increase"),
        (([2, 1], [1, 1], 10, 0.5), "increase"),
        (([1, 2], [1], 10, 0.5), "one a step"),
        (([1, 2], [1, 11], 10, 0.5), "between 0 and trials"),
        (([1, 2], [1, -1], 10, 0.5), "between 0 and trials"),
        (([1, 2], [1, float("nan")], 10, 0.5), "finite"),
        (([1, 2], [1, 1], 0, 0.5), "at least 1 trial"),
        (([1, 2], [1, 1], 10, 0.0), "threshold"),
        (([1, 2], [1, 1], 10, 1.0), "threshold"),
        (([1, 2], [1, 1], 10, 0.5, 0), "sustain"),
        (([1, 2], [1, 1], 10, 0.5, 1.5), "sustain"),
        (([1, 2, 3], [1, 1, 1], [10, 10], 0.5), "trials"),
    ],
)
def test_bad_series_are_refused(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(UserError, match=word):
        onset(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [(5, 5, "observed"), (5, math.inf, "observed"), (1, 2, "seen"), (-1, 2, "observed"), (1, 9, "right-censored")],
)
def test_impossible_onsets_are_refused(bad: tuple[float, float, str]) -> None:
    with pytest.raises(SettingError):
        Onset(*bad)  # type: ignore[arg-type]


def seen(lower: float, upper: float) -> Onset:
    return Onset(lower, upper, "observed")


def never(last: float) -> Onset:
    return Onset(last, math.inf, "right-censored")


@pytest.mark.parametrize(
    ("rule", "memory", "verdict", "window"),
    [
        (seen(10, 20), seen(40, 50), "open", (20, 40)),
        (seen(10, 20), seen(20, 30), "open", (20, 20)),  # one evaluation is surely inside
        (seen(40, 50), seen(10, 20), "empty", None),
        (seen(10, 20), seen(10, 20), "unknown", None),
        (seen(10, 20), never(90), "open", (20, math.inf)),
        (never(90), seen(10, 20), "empty", None),
        (never(90), never(90), "unknown", None),
        (Onset(0, 10, "left-censored"), seen(20, 30), "open", (10, 20)),
        (Onset(0, 10, "left-censored"), Onset(0, 10, "left-censored"), "unknown", None),
    ],
)
def test_verdict(rule: Onset, memory: Onset, verdict: str, window: tuple[float, float] | None) -> None:
    clocks = Clocks(rule, memory)
    assert clocks.verdict == verdict and clocks.window == window
    assert clocks.as_json()["verdict"] == verdict and str(clocks).startswith(verdict)


def test_simulated_run_is_read_off_at_its_true_clocks() -> None:
    """Binomial samples of known curves: both clocks fall into the interval that holds the true crossing."""
    rng = np.random.default_rng(0)
    steps = np.unique(np.logspace(1, 5, 80).astype(int))
    valid = 1 / (1 + (steps / 300.0) ** -6)  # crosses 0.9 at 300·9^(1/6)
    copied = 1 / (1 + (steps / 30_000.0) ** -4)  # crosses 0.1 at 30000/9^(1/4)
    truth = 300 * 9 ** (1 / 6), 30_000 / 9**0.25
    hits = [rng.binomial(2048, p) for p in (valid, copied)]
    clocks = ClockSettings().read(steps.tolist(), hits[0].tolist(), hits[1].tolist(), [2048] * len(steps), 0.0)
    grid = steps[1] / steps[0]
    for found, true in zip((clocks.rule, clocks.memory), truth, strict=True):
        assert found.lower / grid**2 < true < found.upper * grid**2
    assert clocks.verdict == "open"


def test_settings_refuse_what_cannot_be_resolved() -> None:
    with pytest.raises(SettingError, match=r"evaluation\.samples: 50"):
        ClockSettings(memory_threshold=0.1).check_samples(50)
    ClockSettings(memory_threshold=0.1).check_samples(100)
    with pytest.raises(SettingError, match="chance"):
        ClockSettings(memory_threshold=0.1).memory_level(chance=0.2)
    assert ClockSettings(memory_threshold=0.1, above_chance=True).memory_level(0.2) == pytest.approx(0.3)


def test_public_names() -> None:
    assert tc.clocks.Onset(lower=900, upper=1200, status="observed").estimate == pytest.approx(1039.23, abs=0.01)
