from __future__ import annotations

import math

import numpy as np
import pytest

from twoclocks.clocks import Onset, fit_law, forecast_run, forecast_size, gap_prior
from twoclocks.core.errors import UserError

STEPS = np.unique(np.geomspace(10, 10_000, 60).astype(int))


def curve(tau: float, slope: float, chance: float = 0.0) -> np.ndarray:
    """Copy rate that crosses 0.1 at tau, straight in the logit above chance."""
    start = math.log((0.1 - chance) / 0.9)
    return chance + (1 - chance) / (1 + np.exp(-start - slope * np.log(STEPS / tau)))


@pytest.mark.slow
def test_intervals_hold_the_truth_when_it_comes_from_the_prior() -> None:
    rng = np.random.default_rng(0)
    held, bounded = [], []
    for _ in range(150):
        tau, slope = math.exp(rng.uniform(math.log(300), math.log(30_000))), math.exp(rng.uniform(0.5, 3))
        now = int(np.searchsorted(STEPS, min(tau * rng.uniform(0.5, 0.95), STEPS[-1])))
        hits = rng.binomial(2048, curve(tau, slope)[:now])
        found = forecast_run(STEPS[:now], hits, 2048, 0.1)
        held.append(found.low <= tau <= found.high)
        bounded.append(math.isfinite(found.high))
    assert np.mean(held) >= 0.93 and np.mean(bounded) > 0.3


@pytest.mark.parametrize("slope", [4.0, 20.0, 50.0])
def test_the_lower_end_holds_for_every_slope(slope: float) -> None:
    """A steep curve gives no sign before its onset: the forecast then only says that memory has not begun."""
    rng = np.random.default_rng(3)
    late = []
    for _ in range(60):
        tau = math.exp(rng.uniform(math.log(1000), math.log(9000)))
        now = int(np.searchsorted(STEPS, tau * rng.uniform(0.75, 1.0)))
        found = forecast_run(STEPS[:now], rng.binomial(2048, curve(tau, slope)[:now]), 2048, 0.1)
        late.append(found.low > tau)
    assert np.mean(late) <= 0.05


def test_copies_by_chance_predict_nothing() -> None:
    hits = np.random.default_rng(1).binomial(2048, 0.05, size=len(STEPS))
    known = forecast_run(STEPS, hits, 2048, 0.1, chance=0.05)
    fooled = forecast_run(STEPS, hits, 2048, 0.1)
    assert math.isinf(known.high) and known.low == STEPS[-1] and str(known).startswith("after")
    assert math.isfinite(fooled.high)


def test_a_forecast_never_names_a_step_in_the_past() -> None:
    """The rate is above the threshold already, or a prior says that memory should have begun long ago."""
    copying = curve(3000, 4)
    pilots = [(Onset(90 * k, 110 * k, "observed"), Onset(270 * k, 330 * k, "observed")) for k in (1, 2, 4, 8)]
    early = gap_prior(Onset(95, 105, "observed"), pilots)  # expects memory at about step 300
    rng = np.random.default_rng(5)
    for rate, prior in ((copying, None), (copying, early), (np.zeros(len(STEPS)), early), (curve(2e4, 2), early)):
        found = forecast_run(STEPS, rng.binomial(2048, rate), 2048, 0.1, prior=prior)
        assert STEPS[-1] <= found.low <= found.median <= found.high
        assert found.remaining(float(STEPS[-1]))[0] == found.low - STEPS[-1]


def test_a_later_look_narrows_the_forecast() -> None:
    hits = np.random.default_rng(2).binomial(2048, curve(9000, 4))
    widths = []
    for now in (45, 55, 59):
        found = forecast_run(STEPS[:now], hits[:now], 2048, 0.1)
        widths.append(math.log(found.high / found.low))
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.7


def test_the_gap_and_pilots_predict_before_there_are_copies() -> None:
    pilots = [(Onset(90 * k, 110 * k, "observed"), Onset(270 * k, 330 * k, "observed")) for k in (1, 2, 4, 8)]
    early = STEPS < 1000
    opened = gap_prior(Onset(780, 820, "observed"), pilots)
    found = forecast_run(STEPS[early], np.zeros(early.sum()), 2048, 0.1, prior=opened)
    assert 1500 < found.low < 2400 < found.high < 3500 and "4 pilots" in found.basis
    shut = forecast_run(
        STEPS[early], np.zeros(early.sum()), 2048, 0.1, prior=gap_prior(Onset(900, math.inf, "right-censored"), pilots)
    )
    assert shut.low > 2500  # three times later than a gap that opens after 900
    with pytest.raises(UserError, match="at least 3"):
        gap_prior(Onset(780, 820, "observed"), pilots[:2])


def test_forecast_of_a_size_is_the_laws() -> None:
    law = fit_law([64, 128, 256, 512], [Onset(9 * n, 11 * n, "observed") for n in (64, 128, 256, 512)])
    found = forecast_size(law, 4096)
    assert found.median == pytest.approx(law.predict(4096)) and found.low < 41_000 < found.high
    assert found.remaining(10_000)[1] == pytest.approx(found.median - 10_000) and found.remaining(1e9) == (0, 0, 0)
    assert found.as_json()["basis"] == "law of 4 runs"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"threshold": 0.01, "chance": 0.05}, "threshold"),
        ({"level": 1.0}, "level"),
        ({"steps": [0], "copied": [0]}, "after step 0"),
        ({"steps": []}, "empty"),
        ({"copied": [300, 1]}, "between 0 and trials"),
        ({"steps": [20, 10]}, "increase"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], word: str) -> None:
    given = {"steps": [10, 20], "copied": [0, 1], "trials": 200, "threshold": 0.1, **change}
    with pytest.raises(UserError, match=word):
        forecast_run(**given)  # type: ignore[arg-type]
