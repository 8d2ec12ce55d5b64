"""Laws and forecasts of τ_ext, on simulated runs whose onset is known and on the runs of results/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.simulated import log_steps, rise, simulated_run

from twoclocks.analysis.forecasts import forecast_running, forecast_sizes
from twoclocks.analysis.laws import fit_runs
from twoclocks.core.errors import UserError
from twoclocks.report.laws import draw_laws, law_data
from twoclocks.runs.rows import StoredRun, read_rows

ROWS = Path(__file__).parents[2] / "results" / "campaign"


def text_runs(folder: Path, last: float = 64.0, sizes: tuple[int, ...] = (64, 128, 256, 512)) -> list[StoredRun]:
    """Copies begin at 4,000·(N/64) and texts can be extracted at 1,000·(N/64)^1.5, up to ``last`` times N."""
    found = []
    for n in sizes:
        for seed in range(2):
            scatter = 1 + 0.04 * (seed - 0.5)
            steps = log_steps(32, last * n)
            gap = rise(steps, 200 * (n / 64) ** 1.5 * scatter)
            columns: dict[str, Any] = {
                "sample_memorization": rise(steps, 4000 * n / 64 * scatter),
                "extracted": rise(steps, 1000 * (n / 64) ** 1.5 * scatter),
                "extracted_held_out": 0 * gap,
                **{"loss_train": 1 - 0 * gap, "loss_held_out": 1 + gap, "loss_gap_error": np.full(len(gap), 0.01)},
            }
            point = {"data.n": n, "data.seed": seed, "training.seed": seed}
            found.append(simulated_run(folder, "gpt-text", point, steps, columns))
    return found


def test_the_law_is_that_of_extraction(tmp_path: Path) -> None:
    runs = text_runs(tmp_path, last=512)
    for clock, power in (("tau_ext", 1.5), ("tau_mem", 1.0)):
        law = fit_runs(runs, clock).pooled  # type: ignore[arg-type]
        assert law.alpha == pytest.approx(power, abs=0.12), clock
    infos, _ = law_data(runs)
    assert [info.name for info in infos if info.name != "τ_rule"] == ["τ_mem", "τ_gap", "τ_ext"]
    assert len(draw_laws(infos).axes) == len(infos)


def test_forecasts_at_other_sizes_and_of_a_run_that_is_training(tmp_path: Path) -> None:
    runs = text_runs(tmp_path / "whole", last=512)
    (found,), judged = forecast_sizes(runs, [1024], "tau_ext")
    assert found.low < 1000 * 16**1.5 < found.high and judged.held >= 0.8 * judged.tried > 0
    (young, *_) = text_runs(tmp_path / "young", last=8, sizes=(64,))
    forecast, _ = forecast_running(young, runs, "tau_ext")
    assert forecast.low < 1000 < forecast.high < 4000
    with pytest.raises(UserError, match="extraction has begun"):
        forecast_running(runs[0], runs, "tau_ext")


@pytest.mark.parametrize("clock", ["tau_gap", "tau_rule", "tau"])
def test_other_clocks_are_not_predicted(tmp_path: Path, clock: Any) -> None:
    with pytest.raises(UserError, match=r"tau_mem.*tau_ext"):
        forecast_sizes(text_runs(tmp_path), [1024], clock)


def test_a_run_without_prompts_is_named(tmp_path: Path) -> None:
    steps = log_steps(32, 4096)
    run = simulated_run(tmp_path, "gpt-text", {"data.n": 64}, steps, {"sample_memorization": rise(steps, 1000)})
    with pytest.raises(UserError, match=r"evaluation\.prompts is 0"):
        fit_runs([run], "tau_ext")


def test_real_runs_of_a_gpt_on_text() -> None:
    """Training strings can be extracted when samples are copies, within one or two evaluations.

    The runs ended soon after, and 64 prompts are few: not every onset is certain.
    """
    runs = [one for one in read_rows(ROWS) if one.settings.name == "gpt-text"]
    runs = [one for one in runs if one.settings.clocks.stop == "memory"]  # not the one whose texts are shown
    assert len(runs) == 15
    for one in runs:
        clocks = one.clocks(changes=False)
        assert clocks.memory.seen and clocks.extraction is not None
        crossing, copies = clocks.extraction.first_crossing, clocks.memory.first_crossing
        assert crossing is not None and copies is not None and 1 / 1.5 < crossing / copies < 1.5
    assert fit_runs(runs, "tau_ext").pooled.alpha < 0.8
