"""Plans from simulated pilots whose laws are known: predictions, verdicts, records, budgets, interventions."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.analysis.budgets import pace_of, read_budget, seconds_of, step_seconds
from twoclocks.analysis.forecasts import judge_each_size, judge_largest_size
from twoclocks.analysis.gains import Gain, Ratio, read_gains
from twoclocks.analysis.laws import Point, law_of, read_points
from twoclocks.analysis.plans import Missing, Plan, Prediction, plan_run, reach, window_of
from twoclocks.clocks import Forecast, Onset, fit_law
from twoclocks.clocks.law import fit_law_unchecked
from twoclocks.clocks.window import NO_RULE, Clocks
from twoclocks.core.errors import UserError
from twoclocks.report.plans import cautions, gain_rows, plan_rows, sentences
from twoclocks.runs import RunSettings, load_settings
from twoclocks.runs.digest import Digest, RunDigest

SIZES = (64, 128, 256, 512)
BASE = 1.12  # ratio of two evaluations


@lru_cache
def settings_of(n: int, seed: int, batch: int = 64) -> RunSettings:
    change = {"rule.length": 30, "data.n": n, "training.seed": seed, "training.batch": batch}
    return load_settings("demo-gpt", change)


def seen(tau: float, last: float = math.inf, base: float = BASE) -> Onset:
    """An onset as evaluations at powers of ``base`` see it, up to step ``last``."""
    lower = base ** math.floor(math.log(tau) / math.log(base))
    if lower * base > last:
        return Onset(last, math.inf, "right-censored", definition="simulated")
    return Onset(lower, lower * base, "observed", definition="simulated")


def pilot(n: int, seed: int, clocks: Clocks, batch: int = 64) -> RunDigest:
    """A finished run with these clocks, and no directory."""
    kept = Digest({"derived": {}}, settings_of(n, seed, batch), {"status": "finished"}, "", None, clocks)  # type: ignore[arg-type]
    return RunDigest(Path(f"nowhere/{n}-{seed}-{batch}"), kept)


def pilots(
    rng: np.random.Generator, seeds: int = 3, scatter: float = 0.15, last: float = math.inf, sizes: Any = SIZES
) -> list[RunDigest]:
    """τ_rule = 40·N^0.1 and τ_mem = 10·N, with log-normal scatter."""
    return [
        pilot(
            n,
            seed,
            Clocks(
                seen(40 * n**0.1 * math.exp(scatter * rng.standard_normal()), last),
                seen(10 * n * math.exp(scatter * rng.standard_normal()), last),
            ),
        )
        for n in sizes
        for seed in range(seeds)
    ]


def plan(n: int = 2048, budget: str = "5000", **change: Any) -> Plan:
    return plan_run(pilots(np.random.default_rng(0), **change), n, budget)


# Predictions


def test_both_clocks_are_predicted_from_their_own_laws() -> None:
    found = plan()
    assert isinstance(found.learned, Prediction)
    assert (found.memory.name, found.learned.name) == ("τ_mem", "τ_rule")
    assert found.memory.law.alpha == pytest.approx(1.0, abs=0.15) and abs(found.learned.law.alpha - 0.1) < 0.15
    memory, learned = found.memory.forecast, found.learned.forecast
    assert memory.low < 20_480 < memory.high and memory.median == pytest.approx(20_480, rel=0.3)
    assert learned.low < 40 * 2048**0.1 < learned.high < memory.low
    assert found.stop == math.floor(memory.low) and found.window == "open" and found.reaches == "yes"
    law = law_of(read_points(pilots(np.random.default_rng(0)), "tau_mem")[0])
    assert (memory.low, memory.high) == law.predict_interval(2048)


@pytest.mark.slow
def test_intervals_hold_95_percent_of_new_runs_beyond_the_pilots() -> None:
    """200 repeats at 4 times the largest pilot; true coverage of 95% lies in these bounds with 99.9%."""
    rng, repeats = np.random.default_rng(1), 200
    held, early, widths = {"tau_mem": 0, "tau_rule": 0}, 0, []
    for _ in range(repeats):
        runs = pilots(rng)
        for clock, centre in (("tau_mem", 10 * 2048), ("tau_rule", 40 * 2048**0.1)):
            low, high = law_of(read_points(runs, clock)[0]).predict_interval(2048)  # type: ignore[arg-type]
            truth = centre * math.exp(0.15 * rng.standard_normal())
            held[clock] += low <= truth <= high
            if clock == "tau_mem":
                early += truth < low
                widths.append(high / low)
    assert all(0.88 <= count / repeats < 1.0 for count in held.values()), held
    assert early / repeats < 0.08  # 2.5% begin to copy before the step at which to stop
    assert np.median(widths) < 4  # 95% intervals of the scatter alone are 1.8 wide


def test_without_a_law_of_one_clock() -> None:
    rng = np.random.default_rng(0)
    late = [
        pilot(run.settings.data.n, k, Clocks(seen(1e6, 1e5), run.digest.clocks.memory))
        for k, run in enumerate(pilots(rng))
    ]
    found = plan_run(late, 2048, "5000")
    assert isinstance(found.learned, Missing) and "observed at 0 sizes" in found.learned.reason
    assert (found.window, found.reaches) == ("unknown", "unknown")
    assert any("There is no law of τ_rule" in line for line in sentences(found))
    assert plan_rows(found)[0]["median"] == "none" and found.as_json()["learned"]["reason"] == found.learned.reason
    with pytest.raises(UserError, match="at least 4 sizes"):
        plan_run(pilots(rng, sizes=SIZES[:3]), 2048, "5000")
    with pytest.raises(UserError, match="observed at 1 sizes"):
        plan_run(pilots(rng, last=900), 2048, "5000")
    mixed = pilots(rng) + [pilot(n, 0, Clocks(seen(50), seen(10 * n)), batch=32) for n in SIZES]
    with pytest.raises(UserError, match="2 kinds"):
        plan_run(mixed, 2048, "5000")


def test_data_without_a_rule_have_the_clock_of_quality() -> None:
    rng = np.random.default_rng(0)
    known = pilots(rng)
    natural = [
        pilot(run.settings.data.n, k, Clocks(NO_RULE, run.digest.clocks.memory, generation=run.digest.clocks.rule))
        for k, run in enumerate(known)
    ]
    found = plan_run(natural, 2048, "5000")
    by_rule = plan_run(known, 2048, "5000").learned
    assert isinstance(found.learned, Prediction) and isinstance(by_rule, Prediction)
    assert found.learned.clock == "tau_gen" and found.learned.forecast == by_rule.forecast
    assert any("The budget reaches τ_gen" in line for line in sentences(found))
    without = [pilot(run.settings.data.n, k, Clocks(NO_RULE, run.digest.clocks.memory)) for k, run in enumerate(known)]
    missing = plan_run(without, 2048, "5000")
    assert isinstance(missing.learned, Missing) and "quality" in missing.learned.reason
    assert any("These data have no rule." in line for line in sentences(missing))


# Verdicts


def test_verdicts_at_known_budgets() -> None:
    low, high = plan().memory.forecast.low, plan().memory.forecast.high
    for steps, verdict, first in (
        (math.floor(low), "safe", "Train all"),
        (math.ceil(low), "may cross", "Stop at step"),
        (math.floor(high), "may cross", "Stop at step"),
        (math.ceil(high) + 1, "crosses", "Stop at step"),
    ):
        found = plan(budget=str(steps))
        assert found.verdict == verdict and sentences(found)[0].startswith(first), steps
        assert found.as_json()["budget_and_tau_mem"] == verdict and f"{found.stop:,}" in sentences(found)[0]
    learned = plan().learned
    assert isinstance(learned, Prediction)
    ends = learned.forecast.low, learned.forecast.high
    assert [plan(budget=str(int(b))).reaches for b in (ends[0] - 1, ends[0] + 1, ends[1] + 1)] == ["no", "maybe", "yes"]


def forecast(low: float, high: float) -> Forecast:
    return Forecast(math.sqrt(low * high), low, high, 0.95, "")


@pytest.mark.parametrize(
    ("learned", "window"),
    [
        (forecast(10, 99), "open"),
        (forecast(10, 100), "unknown"),  # the step to stop at is 100
        (forecast(10, 300), "unknown"),
        (forecast(200, 300), "unknown"),
        (forecast(201, 300), "empty"),
        (None, "unknown"),
    ],
)
def test_window(learned: Forecast | None, window: str) -> None:
    assert window_of(forecast(100.9, 200), learned) == window


def test_reach_at_the_ends_of_an_interval() -> None:
    assert [reach(steps, forecast(100, 200)) for steps in (99, 100, 200, 201)] == ["no", "maybe", "maybe", "yes"]


def test_an_interval_from_before_the_first_step_names_no_stop() -> None:
    wild = [pilot(n, k, Clocks(seen(1.5), seen((3, 3000)[k]))) for n in SIZES for k in (0, 1)]
    found = plan_run(wild, 10**6, "100")
    assert found.stop == 0 and sentences(found)[0].startswith("No step to stop at")
    assert any("no power law of τ_mem" in line for line in sentences(found))


def test_a_size_far_from_the_pilots_is_warned_of() -> None:
    for n, warned in ((2048, False), (2049, True), (16, False), (15, True)):
        found = plan(n)
        assert found.is_far == warned == any("Warning: N =" in line for line in cautions(found)), n
    assert any("is 16 times the largest pilot (512)" in line for line in cautions(plan(16 * 512)))
    assert any("is 1/8 of the smallest pilot (64)" in line for line in cautions(plan(8)))


# Records


def points_of(runs: list[RunDigest]) -> list[Point]:
    return read_points(runs, "tau_mem")[0]


def test_the_record_of_left_out_sizes_equals_a_slow_version() -> None:
    runs = pilots(np.random.default_rng(3), seeds=2, sizes=(*SIZES, 1024))
    points = points_of(runs)
    for judged, sizes, below in (
        (judge_each_size(points), (*SIZES, 1024), False),
        (judge_largest_size(points), (1024,), True),
    ):
        held, tried, widths = 0, 0, []
        for size in sizes:
            rest = [run for run in runs if run.settings.data.n != size and (not below or run.settings.data.n < size)]
            law = fit_law([run.settings.data.n for run in rest], [run.digest.clocks.memory for run in rest])
            low, high = law.predict_interval(size)
            for run in runs:
                if run.settings.data.n == size:
                    truth = run.digest.clocks.memory
                    tried += 1
                    held += low <= truth.upper and high >= truth.lower
                    widths.append(high / low)
        assert (judged.held, judged.tried) == (held, tried) and judged.width == pytest.approx(np.median(widths))
    found = plan_run(runs, 2048, "5000").memory
    assert (found.sizes, found.largest) == (judge_each_size(points), judge_largest_size(points))


def test_an_extrapolation_that_fails_is_said() -> None:
    """The law bends at the largest size: a plan from all sizes must tell that the smaller ones did not predict it."""
    runs = pilots(np.random.default_rng(0), scatter=0.05)
    bent = [pilot(1024, k, Clocks(seen(60), seen(1500.0))) for k in range(3)]
    found = plan_run([*runs, *bent], 2048, "5000")
    assert (found.memory.largest.held, found.memory.largest.tried) == (0, 3)
    assert found.memory.sizes.held < found.memory.sizes.tried == 15
    assert any(
        "predicting N = 1,024 from the smaller sizes, the law missed τ_mem in 3 of 3" in s for s in sentences(found)
    )


def test_the_largest_size_that_was_observed_is_the_one_predicted() -> None:
    runs = pilots(np.random.default_rng(0), sizes=(32, *SIZES), last=4000)  # not reached at N = 512
    points = points_of(runs)
    judged = judge_largest_size(points)
    rest = [point for point in points if point.n < 256]
    law = fit_law_unchecked([p.n for p in rest], [p.onset for p in rest], "log-normal", None)
    low, high = law.predict_interval(256)
    assert judged.tried == 3 and "N = 256" in judged.how and judged.width == pytest.approx(high / low)
    few = points_of(pilots(np.random.default_rng(0), last=4000))
    assert judge_largest_size(few).tried == 0  # two sizes below 256 are no law


# Budgets


@pytest.mark.parametrize(
    ("words", "seconds"), [("2h", 7200), ("30m", 1800), ("90s", 90), ("1.5h", 5400), ("20000", None), ("1", None)]
)
def test_budgets(words: str, seconds: float | None) -> None:
    assert seconds_of(words) == seconds


@pytest.mark.parametrize(
    "words",
    ["0", "0h", "-3", "2 days", "abc", "nan", "inf", "1e400", "1e4", "", "h", "2.5", "9" * 400, "٣", "2h30m", "2 h"],
)
def test_wrong_budgets(words: str) -> None:
    with pytest.raises(UserError, match=r"--budget: .* is not allowed; use a number of steps such as 20000, or a time"):
        plan(budget=words)


class Timed:
    """The timings of a run: training of so many seconds per step, evaluations of 5 s."""

    def __init__(self, seconds: float | None, was_together: bool = False) -> None:
        self.seconds, self.was_together = seconds, was_together

    def timings(self) -> dict[str, Any]:
        if self.seconds is None:
            return {}
        steps = np.array([0.0, 50, 100])
        return {
            "step": steps,
            "seconds": self.seconds * steps + 5 * np.arange(1, 4),
            "evaluation_seconds": np.full(3, 5.0),
        }


def test_hours_become_steps_at_the_pace_of_the_pilots() -> None:
    runs: Any = [Timed(0.1), Timed(0.2), Timed(0.6), Timed(None), Timed(9.0, was_together=True)]
    assert step_seconds(runs[1]) == pytest.approx(0.2) and step_seconds(runs[3]) is step_seconds(runs[4]) is None
    pace = pace_of(runs)
    assert pace is not None and (pace.median, pace.runs) == (pytest.approx(0.2), 3)
    assert (pace.fastest, pace.slowest) == (pytest.approx(0.1), pytest.approx(0.6))
    assert read_budget("1h", runs).steps == 18_000 and read_budget("500", runs) == read_budget("500", [])
    with pytest.raises(UserError, match=r"'0\.1s'.*one step of the pilots takes 0\.2 s"):
        read_budget("0.1s", runs)
    with pytest.raises(UserError, match="no pilot stored how long its steps took"):
        read_budget("1h", runs[3:])
    with pytest.raises(UserError, match="no pilot stored"):  # pilots without a directory have no timings
        plan(budget="1h")


@pytest.mark.parametrize("n", [0, -5, 1, 10**400])
def test_wrong_sizes(n: int) -> None:
    with pytest.raises(UserError, match=r"--n: .* is not allowed"):
        plan(n)


# Interventions


def effect(ratio: float | None, low: float | None, high: float | None, found: bool) -> dict[str, Any]:
    return {"ratio": ratio, "interval": [low, high], "p": 0.01, "adjusted_p": 0.02, "found": found, "censored": 0}


def write_widen(folder: Path, arms: dict[str, Any], **more: Any) -> Path:
    document = {
        "base": "demo-gpt",
        "n": 64,
        "rule": "parity",
        "questions": 4,
        "arms": [
            {"arm": "base", "effects": {}},
            *({"arm": name, "effects": effects} for name, effects in arms.items()),
        ],
    }
    folder.mkdir(exist_ok=True)
    (folder / "widen.json").write_text(json.dumps(document | more), encoding="utf-8")
    return folder


def test_interventions_that_were_found_change_the_advice(tmp_path: Path) -> None:
    arms = {
        "later": {"memory": effect(2.0, 1.5, 2.6, True), "learned": effect(1.1, 0.9, 1.4, False)},
        "unproven": {"memory": effect(3.0, 0.8, 9.0, False)},
        "never": {"memory": effect(None, 4.0, None, True)},
        "slower": {"memory": effect(2.0, 1.5, 2.6, True), "learned": effect(900.0, 800.0, 1000.0, True)},
        "earlier": {"memory": effect(0.5, 0.4, 0.6, True)},
        "unknown": {"learned": effect(1.0, 0.9, 1.1, False)},
    }
    gains = read_gains(write_widen(tmp_path / "widen", arms))
    found = plan_run(pilots(np.random.default_rng(0)), 2048, "5000", gains)
    memory, plain = found.memory.forecast, plan()
    assert (found.stop, found.verdict, found.window) == (plain.stop, plain.verdict, plain.window)
    rows = {row["intervention"]: row for row in found.as_json()["interventions"]}
    assert rows["later"]["stop"] == math.floor(memory.low * 1.5) and rows["later"]["window"] == "open"
    assert rows["later"]["expected"]["median"] == pytest.approx(memory.median * 2)
    assert rows["unproven"]["stop"] is None and rows["unknown"]["stop"] is None and "expected" not in rows["unproven"]
    assert rows["never"]["stop"] == math.floor(memory.low * 4)
    assert rows["never"]["expected"]["median"] == pytest.approx(memory.median * 4)
    assert rows["never"]["expected"]["high"] is None and rows["never"]["tau_mem"]["ratio"] is None
    assert rows["slower"]["window"] != "open" and rows["earlier"]["stop"] == math.floor(memory.low * 0.4)
    text = sentences(found)
    with_words = [line for line in text if line.startswith(("With ", "Do without "))]
    assert [line.split()[1].strip(",") for line in with_words] == ["later", "never", "slower", "without"]
    assert f"With later, stop at step {rows['later']['stop']:,} in place of {plain.stop:,}" in with_words[0]
    assert "measured at N = 64 on the base demo-gpt, rule parity. That" in text[-1] and "assumption" in text[-1]
    table = {row["intervention"]: row for row in gain_rows(found)}
    assert table["unproven"]["stop at"] == table["unknown"]["stop at"] == "no effect found"
    assert table["later"]["ratio of τ_mem (95%)"] == "×2 (1.5 to 2.6)"
    assert table["never"]["ratio of τ_mem (95%)"] == "at least ×4" and table["never"]["τ_mem"].startswith("at least")
    json.dumps(found.as_json(), allow_nan=False)


def test_a_ratio_without_an_estimate_uses_the_end_that_is_known() -> None:
    assert Ratio(None, 4.0, math.inf, True).best == 4.0 and Ratio(None, 0.0, 0.5, True).best == 0.5
    nothing = Ratio(None, 0.0, math.inf, True)
    assert nothing.best is None and nothing.applied(forecast(100, 200)) == forecast(100, 200)
    before = Ratio(None, 0.0, 0.5, True).applied(forecast(100, 400))
    assert (before.low, before.median, before.high) == (0.0, 100.0, 200.0)


def test_effects_that_were_not_found_change_nothing() -> None:
    huge = Ratio(900.0, 800.0, 1000.0, False)
    assert huge.applied(forecast(100, 200)) == forecast(100, 200)
    found = plan()
    assert found.with_gain(Gain("x", "b", 64, "parity", huge, huge)) == (found.memory.forecast, "open")


def test_where_interventions_were_measured_is_said(tmp_path: Path) -> None:
    one = {"x": {"memory": effect(1.0, 0.9, 1.1, False)}}
    gains = [
        *read_gains(write_widen(tmp_path / "other", one, rule="latin")),
        *read_gains(write_widen(tmp_path / "old", one, n=None, rule=None, base="mine")),
    ]
    assert gains[1] == Gain("x", "mine", None, None, Ratio(1.0, 0.9, 1.1, False), None)
    text = " ".join(sentences(plan_run(pilots(np.random.default_rng(0)), 2048, "5000", gains)))
    assert "rule latin, while the pilots have the rule parity" in text and "an unknown size on the base mine." in text


GOOD = {"base": "b", "arms": [{"arm": "x", "effects": {"memory": effect(2.0, 1.0, 3.0, True)}}]}


def broken(**change: Any) -> dict[str, Any]:
    memory = {**GOOD["arms"][0]["effects"]["memory"], **change}  # type: ignore[index]
    return {"base": "b", "arms": [{"arm": "x", "effects": {"memory": memory}}]}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "7",
        "[" * 100_000,
        '{"base": "b", "arms": 3}',
        '{"base": "b", "arms": [3]}',
        '{"base": "b", "arms": [{"arm": "x"}]}',
        json.dumps({**GOOD, "n": "many"}),
        json.dumps({**GOOD, "n": True}),
        json.dumps({**GOOD, "base": 3}),
        json.dumps(broken(ratio="2")),
        json.dumps(broken(ratio=-1.0)),
        json.dumps(broken(ratio=math.nan)),
        json.dumps(broken(ratio=math.inf)),
        json.dumps(broken(interval=[1.0])),
        json.dumps(broken(interval=[3.0, 1.0])),
        json.dumps(broken(interval=[0.0, 0.0])),
        json.dumps(broken(found="yes")),
        b"\xff\xfe",
    ],
)
def test_what_is_no_experiment_is_refused(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / "widen.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(
        UserError, match=r"--widen: .*widen\.json' is not the result of an experiment .*; give a folder"
    ):
        read_gains(tmp_path)
    with pytest.raises(UserError, match=r"--widen: .*No such file"):
        read_gains(tmp_path / "nowhere")


def test_the_smallest_good_experiment_is_read(tmp_path: Path) -> None:
    (tmp_path / "widen.json").write_text(json.dumps(GOOD), encoding="utf-8")
    assert read_gains(tmp_path) == [Gain("x", "b", None, None, Ratio(2.0, 1.0, 3.0, True), None)]
