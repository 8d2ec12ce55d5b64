"""The kernel recipe: its verdict on gaps that are written by hand, and a real run of a small form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from twoclocks.papers.early_stopping import kernel
from twoclocks.papers.early_stopping.kernel import Kernel, predicted_gap_onset
from twoclocks.papers.recipe import RECIPES, execute_recipe
from twoclocks.runs import Run, RunSettings
from twoclocks.testing.runs import write_run

SMALL = {
    "rule": {"alphabet": 1024},
    "encoding": {"dimension": 16},
    "model": {"width": 128},
    "objective": {"sampler_steps": 2},
    "evaluation": {"samples": 200, "evaluations": 12, "first": 20, "loss_rows": 512},
}


class Tiny(Kernel):
    """Few points in 16 dimensions, 128 units."""

    change: ClassVar[dict[str, Any]] = {**SMALL, "training": {"steps": 600}}
    rates: ClassVar[dict[str, float]] = {"ntk-sgd": 3.0, "mean_field-sgd": 3.0, "ntk-adam": 0.1}
    sizes: ClassVar[tuple[int, ...]] = (8, 16, 32)
    variances: ClassVar[tuple[float, ...]] = (0.02, 0.04, 0.08)
    batches: ClassVar[tuple[int, ...]] = (4, 8, 16)
    base: ClassVar[tuple[int, float]] = (16, 0.04)


def written(path: Path, settings: RunSettings, tau: float) -> Run:
    """A run whose gap crosses the threshold at ``tau``."""
    steps = np.array(settings.schedule, dtype=float)
    still, ones = np.zeros_like(steps), np.ones_like(steps)
    columns = {
        "loss": ones,
        "sample_accuracy": ones,
        "sample_memorization": still,
        "valid_new": ones,
        "loss_train": ones,
        "loss_held_out": 1 + settings.clocks.gap_threshold * (steps / tau) ** 2,
        "loss_gap_error": 0.001 * ones,
    }
    return write_run(path, settings, columns)


def law(settings: RunSettings, change: str) -> float:
    """The paper's τ, with one thing wrong."""
    size, batch, sigma = settings.data.n, settings.training.batch, settings.objective.sigma  # type: ignore[attr-defined]
    adam, field = settings.training.optimizer == "adam", settings.model.limit == "mean_field"  # type: ignore[attr-defined]
    tau = size / sigma * (0.3 if adam else 1) * (0.5 if field else 1)
    tau *= {"size": (size / 512) ** 0.5 if field else 1, "adam": (size / 512) ** -0.7 if adam else 1}.get(change, 1)
    tau *= {"noise": sigma if not field else 1, "batch": size / batch, "slightly": size**-0.3 if not adam else 1}.get(
        change, 1
    )
    return float(tau)


@pytest.mark.parametrize("wrong", ["", "size", "noise", "batch", "adam", "slightly"])
def test_verdict(tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "predicted_gap_onset", lambda settings: 2 * law(settings, ""))
    monkeypatch.setattr(kernel, "local_mode", lambda settings: {})
    recipe = Kernel()
    runs = {
        label: written(tmp_path / label, settings, law(settings, wrong))
        for label, settings in recipe.settings("cpu").items()
    }
    measured = recipe.measure_claim(runs)
    assert measured.verdict == ("not reproduced" if wrong else "reproduced"), measured.sentence
    json.dumps(measured.values, allow_nan=False)
    if not wrong:
        powers = {name: sweep["power"]["power"] for name, sweep in measured.values["sweeps"].items()}
        assert powers["ntk-size"] == pytest.approx(1, abs=0.03)
        assert powers["mean_field-noise"] == pytest.approx(-1, abs=0.03)
        assert powers["ntk-batch"] == pytest.approx(0, abs=0.03)
        assert "0.50 times the kernel's prediction" in measured.sentence
    runs.popitem()
    assert recipe.measure_claim(runs).verdict == "unfinished"


def test_sweeps_share_the_paper_s_point_and_ask_for_full_batches() -> None:
    recipe, settings = Kernel(), Kernel().settings("cpu")
    assert len(settings) == 2 * (4 + 3 + 4) + 4
    shared = "ntk-sgd-p128-v0.032-b128"
    assert sum(shared in [one.label for one in conditions] for conditions in recipe.axes().values()) == 3
    for one in settings.values():
        assert one.training.distinct and one.training.batch <= one.data.n and one.model.width == 8192  # type: ignore[attr-defined]
        assert one.training.batch == one.data.n or one.data.n == 128


def test_runs_last_long_enough_for_the_predicted_clock() -> None:
    settings = Kernel().settings("cpu")["ntk-sgd-p128-v0.008-b128"]
    assert 1.5 * predicted_gap_onset(settings) < settings.training.steps < 4 * predicted_gap_onset(settings)


def test_a_small_form_really_runs(tmp_path: Path) -> None:
    RECIPES.register("tiny-kernel")(Tiny)
    try:
        out = tmp_path / "tiny.json"
        execute_recipe("tiny-kernel", "cpu", tmp_path / "work", out, lambda line: None)
    finally:
        RECIPES._members.pop("tiny-kernel")
    result = json.loads(out.read_text())
    sweep = result["values"]["sweeps"]["ntk-size"]
    for onset, predicted in zip(sweep["onsets"], sweep["predicted"], strict=True):
        assert onset["interpolated"] == pytest.approx(predicted, rel=0.5)
    assert sweep["power"] is not None and len(result["runs"]) == 2 * (3 + 2 + 2) + 3
