"""τ_gen and the window of data without a rule, on simulated curves with a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twoclocks.clocks import ClockSettings, Onset
from twoclocks.clocks.quality import Quality, generation_onset
from twoclocks.clocks.series import Series, SeriesColumns

STEPS = np.round(np.geomspace(10, 10_000, 60))


def curve(generation: float = 300.0, best: float = 0.1) -> np.ndarray:
    """A loss that falls from 1 and reaches 1.2 times its best at ``generation``."""
    power = math.log(0.9 / (0.2 * best)) / math.log(generation)
    return best + 0.9 * STEPS**-power


def memory_at(step: float) -> Onset:
    after = STEPS[step < STEPS]
    return Onset(float(STEPS[step >= STEPS][-1]), float(after[0]) if len(after) else math.inf, "observed")


def test_the_onset_is_where_the_curve_is_within_the_factor_and_its_interval_covers_it() -> None:
    error, covered, rng = 0.002, 0, np.random.default_rng(0)
    for _ in range(50):
        noisy = curve() + error * rng.standard_normal(len(STEPS))
        found = generation_onset(STEPS, Quality("loss", noisy, [error] * 60), memory_at(5000), 1.3, 3, 0.95)
        assert found is not None and found.status == "observed"
        # The best value is that of the last step before copying, a little above the limit of the curve.
        last = curve()[memory_at(5000).lower >= STEPS].min()
        truth = STEPS[curve() <= 1.3 * last][0]
        covered += found.lower <= truth <= found.upper
    assert covered >= 45


def test_what_comes_with_copying_does_not_count() -> None:
    values = curve()
    values[STEPS > 2000] = 0.001  # copies are perfect samples
    with_copies = generation_onset(STEPS, Quality("loss", values, [1e-4] * 60), memory_at(2000), 1.2, 3, 0.95)
    without = generation_onset(STEPS, Quality("loss", curve(), [1e-4] * 60), memory_at(2000), 1.2, 3, 0.95)
    assert with_copies == without and with_copies is not None and with_copies.upper < 2000
    suspected = Onset(5000.0, math.inf, "right-censored", suspected=(1800.0, 2000.0))
    again = generation_onset(STEPS, Quality("loss", values, [1e-4] * 60), suspected, 1.2, 3, 0.95)
    assert again is not None and again.upper < 2000


def test_copying_from_the_start_leaves_no_onset() -> None:
    assert generation_onset(STEPS, Quality("loss", curve(), [0.0] * 60), memory_at(11), 1.2, 3, 0.95) is None


def test_a_larger_error_widens_the_interval() -> None:
    found = [
        generation_onset(STEPS, Quality("loss", curve(), [error] * 60), memory_at(9000), 1.5, 3, 0.95)
        for error in (1e-4, 5e-3)
    ]
    small, large = (one.upper - one.lower for one in found if one is not None)
    assert large > small > 0


def rows(copies_from: float) -> list[dict[str, float]]:
    return [
        {"step": step, "trials": 500, "copied_hits": 400 if step >= copies_from else 0, "train": loss}
        | {"held_out": loss + (0.2 if step >= copies_from else 0), "held_out_error": 1e-3, "gap_error": 1e-3}
        for step, loss in zip(STEPS, curve(), strict=True)
    ]


COLUMNS = SeriesColumns(
    "copied", "valid", "train", "held_out", "gap_error", quality={"loss": ("held_out", "held_out_error")}
)


def test_the_window_of_data_without_a_rule_lies_between_quality_and_copies() -> None:
    clocks = ClockSettings().read(Series.from_rows(rows(3000), COLUMNS), 0.0)
    assert not clocks.has_rule and clocks.generation is not None and clocks.verdict == "open"
    assert clocks.window is not None and clocks.window == (clocks.generation.upper, clocks.memory.lower)
    assert str(clocks).startswith("open ") and clocks.as_json()["tau_gen"]["upper"] == clocks.generation.upper
    assert "1.1 times its best before copying" in (clocks.generation.definition or "")


def test_without_the_error_of_the_quality_there_is_no_such_clock() -> None:
    bare = [{key: value for key, value in row.items() if key != "held_out_error"} for row in rows(3000)]
    clocks = ClockSettings().read(Series.from_rows(bare, COLUMNS), 0.0)
    assert clocks.generation is None and clocks.verdict == "unknown"


@pytest.mark.parametrize("copies_from", [11, 20_000])
def test_copies_at_once_or_never(copies_from: float) -> None:
    clocks = ClockSettings().read(Series.from_rows(rows(copies_from), COLUMNS), 0.0)
    if copies_from == 11:
        assert clocks.generation is None and clocks.window is None
    else:
        assert clocks.window is not None and clocks.window[1] == math.inf


def test_a_model_that_never_improved_has_no_onset_and_no_window() -> None:
    flat = Quality("loss", [1.0] * 60, [0.01] * 60)
    assert generation_onset(STEPS, flat, memory_at(5000), 2.0, 3, 0.95) is None
