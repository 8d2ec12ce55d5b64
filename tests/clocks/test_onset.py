from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twoclocks as tc
from twoclocks.clocks import Clocks, ClockSettings, Onset, Series, gap_onset, onset
from twoclocks.clocks.looks import least_samples
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
    """With measured rates and no bounds (P1); and with so many samples that bounds do not matter."""
    for found in (
        onset(STEPS, hits, 10, threshold=0.3, sustain=3, confidence=0),
        onset(STEPS, 10**6 * (np.array(hits) - 0.01).clip(0), 10**7, threshold=0.3, sustain=3),
    ):
        assert (found.lower, found.upper, found.status, found.first_crossing) == expected


def test_onset_that_is_there_before_the_first_update() -> None:
    found = onset([0, 10, 20, 30], [90, 90, 90, 90], 100, threshold=0.3)
    assert (found.lower, found.upper, found.status, str(found)) == (0, 0, "left-censored", "by 0")
    assert Clocks(found, seen(10, 20)).verdict == "open"


def test_a_streak_from_the_first_evaluation_on_that_is_cut_short() -> None:
    found = onset([10, 20], [90, 90], 100, threshold=0.3, sustain=3)
    assert (found.lower, found.upper, found.status) == (0, math.inf, "right-censored")


@given(st.lists(st.integers(0, 10), min_size=1, max_size=40), st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_onset_against_a_slow_definition(hits: list[int], sustain: int) -> None:
    steps = [7 * (i + 1) for i in range(len(hits))]
    found = onset(steps, hits, 10, threshold=0.45, sustain=sustain, confidence=0)
    starts = [i for i in range(len(hits) - sustain + 1) if all(h >= 5 for h in hits[i : i + sustain])]
    if not starts:
        assert found.status == "right-censored"
    else:
        assert found.upper == steps[starts[0]]
        assert found.lower == (steps[starts[0] - 1] if starts[0] else 0)


def test_trials_may_differ_between_evaluations() -> None:
    found = onset([1, 2, 3], [1, 700, 7000], [10, 1000, 10000], threshold=0.4, sustain=2)
    assert (found.lower, found.upper, found.status) == (0, 2, "left-censored")  # 1 of 10 does not exclude 40%


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([], [], 10, 0.5), "empty"),
        (([1, 1], [1, 1], 10, 0.5), "increase"),
        (([2, 1], [1, 1], 10, 0.5), "increase"),
        (([1, 2], [1], 10, 0.5), "one per step"),
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
        (seen(10, 20), seen(20, 30), "open", (20, 20)),  # one evaluation is inside with confidence
        (seen(40, 50), seen(10, 20), "empty", None),
        (seen(20, 50), seen(10, 20), "empty", None),
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
    trials = [2048] * len(steps)
    gaps, errors = 0.2 * copied + 0.001 * rng.standard_normal(len(steps)), [0.001] * len(steps)
    series = Series(steps, trials, hits[1], hits[0], gaps, errors, parts={"row": hits[0]})
    clocks = ClockSettings().read(series, 0.0)
    for found, true in zip((clocks.rule, clocks.memory), truth, strict=True):
        assert found.lower < true <= found.upper < 1.8 * found.lower
        assert found.interpolated == pytest.approx(true, rel=0.05)
    assert clocks.verdict == "open" and clocks.parts["row"].upper == clocks.rule.upper
    assert clocks.gap is not None and clocks.gap.lower < 30_000 / 3**0.25 <= clocks.gap.upper  # copied = 0.25
    assert clocks.changes["rule"].upper <= clocks.rule.upper and clocks.changes["memory"].upper <= clocks.memory.upper


def test_settings_refuse_what_cannot_be_resolved() -> None:
    need = least_samples(0.0, 0.1, 80, 0.95)
    with pytest.raises(SettingError, match=rf"evaluation\.samples: {need - 1} .* at least {need}"):
        ClockSettings().check_samples(need - 1, looks=80)
    ClockSettings().check_samples(need, looks=80)
    with pytest.raises(SettingError, match="harder to obey"):
        ClockSettings().check_samples(10**6, looks=3, validity=0.95)
    ClockSettings().check_samples(
        need, looks=80, validity=1.0
    )  # everything is valid: there is no rule threshold to check
    with pytest.raises(SettingError, match=r"from chance .* use at least \d+, or clocks\.above_chance: true"):
        ClockSettings().check_samples(200, looks=10, copies=0.09)
    with pytest.raises(SettingError, match=r"chance 0\.2; use clocks\.above_chance: true, a higher threshold"):
        ClockSettings(memory_threshold=0.1).memory_levels(chance=0.2)
    with pytest.raises(SettingError, match=r"chance 0\.95; use a higher threshold"):  # above_chance leaves no room
        ClockSettings(memory_threshold=0.1).memory_levels(chance=0.95)
    with pytest.raises(SettingError, match=r"chance 0\.95; use a lower threshold"):
        ClockSettings(memory_threshold=0.1, above_chance=True).memory_levels(chance=0.95)
    assert ClockSettings(memory_threshold=0.1, above_chance=True).memory_levels(0.2).nominal == pytest.approx(0.3)


@pytest.mark.parametrize("n", [32_768, 131_072])
def test_pairs_with_many_training_samples_have_clocks_above_chance(n: int) -> None:
    """Parity of 36 bits in pairs has 2^18 samples: beyond 26,214 rows a tenth of the true samples are copies."""
    change = {"rule.group": 2, "data.n": n}
    with pytest.raises(SettingError, match=r"clocks\.memory_threshold: 0\.1 .*use clocks\.above_chance: true"):
        tc.load_settings("p1-dit-mini", change)
    made = tc.load_settings("p1-dit-mini", {**change, "clocks.above_chance": True})
    chance, trials = made.rule.copy_chance(n), made.evaluation.samples
    assert chance == n / 2**18
    valid = [0, trials, trials, trials, trials, trials]
    for late, status in ((chance, "right-censored"), (chance + 0.25, "observed")):
        copied = [0, *[round(chance * trials)] * 2, *[round(late * trials)] * 3]
        found = made.clocks.read(Series(STEPS, [trials] * 6, copied, valid), chance)
        assert found.memory.status == status and found.rule.status == "observed"


def test_public_names() -> None:
    assert tc.clocks.Onset(lower=900, upper=1200, status="observed").estimate == pytest.approx(1039.23, abs=0.01)


def test_a_rule_that_is_learned_after_copying_is_discarded() -> None:
    clocks = Clocks(seen(40, 50), seen(10, 20))
    assert clocks.learned_by_memory and clocks.as_json()["learned_by_memory"] and "rule by memory" in str(clocks)
    for other in (Clocks(never(90), seen(10, 20)), Clocks(seen(1, 2), seen(4, 5))):
        assert not other.learned_by_memory


def test_gap_onset_knows_its_errors() -> None:
    steps, gaps = [10, 20, 30, 40, 50, 60], [0.0, 0.02, 0.06, 0.2, 0.3, 0.4]
    assert str(gap_onset(steps, gaps, [0.0] * 6, 0.05)) == "20–30"
    assert (
        str(gap_onset(steps, gaps, [0.015] * 6, 0.05)) == "10–40"
    )  # the bounds of 0.06 are not above, those of 0.02 not below
    assert gap_onset(steps, gaps, [0.015] * 6, 0.05).interpolated == pytest.approx(20 * 1.5**0.75)
    for bad in ({"gaps": [0.0] * 5}, {"errors": [-1.0] * 6}, {"gaps": [math.nan] * 6}, {"threshold": math.inf}):
        given = {"steps": steps, "gaps": gaps, "errors": [0.01] * 6, "threshold": 0.05, **bad}
        with pytest.raises(UserError, match=next(iter(bad))):
            gap_onset(**given)  # type: ignore[arg-type]


def test_the_interpolated_crossing_is_the_lasting_one() -> None:
    found = onset(STEPS, [0, 500, 0, 200, 600, 700], 1000, threshold=0.3, sustain=2)
    assert found.first_crossing == 20 and found.interpolated == pytest.approx(40 * (50 / 40) ** 0.25)
    start = onset([0, 10, 20], [0, 600, 700], 1000, threshold=0.3, sustain=2)
    assert start.interpolated == pytest.approx(5)  # linear where the logarithm has no beginning


def test_onsets_pass_through_json() -> None:
    for one in (seen(10, 20), never(90), onset([10, 20], [0, 90], 100, threshold=0.3, sustain=1)):
        assert Onset.from_json(json.loads(json.dumps(one.as_json()))) == one
