"""Runs that differ in their batch: the power of the batch, and whose answer it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from twoclocks.analysis.batches import batch_law, batch_laws
from twoclocks.core.errors import UserError
from twoclocks.report.batches import batch_info, draw_batches
from twoclocks.report.page import Together, batch_chapter, render
from twoclocks.runs import Run, load_settings
from twoclocks.testing.runs import write_run

BATCHES = (16, 32, 64, 128, 256)


def written(path: Path, batch: int, tau: float, n: int = 64, steps: int = 100_000) -> Run:
    evaluation = {"evaluations": 60, "first": 10, "samples": 2048, "quantization": [0.5]}
    change = {"data.n": n, "training": {"steps": steps, "batch": batch}, "evaluation": evaluation}
    settings = load_settings("demo", {**change, "clocks.confidence": 0})
    at = np.array(settings.schedule, dtype=float)
    copied = 1 / (1 + (at / tau) ** -8.0) * 0.8 + 1e-4
    ones = np.ones_like(at)
    columns = {"loss": ones, "sample_accuracy": ones, "sample_memorization": copied, "valid_new": 1 - copied}
    return write_run(path / f"b{batch}-n{n}", settings, columns)


@pytest.mark.parametrize(("power", "answer"), [(-1.0, "samples"), (0.0, "steps"), (-0.5, "neither"), (0.6, "neither")])
def test_whose_answer(tmp_path: Path, power: float, answer: str) -> None:
    runs = [written(tmp_path, batch, 5000 * (batch / 64) ** power) for batch in BATCHES]
    law = batch_law(runs)
    assert law.answer == answer and law.batches == BATCHES
    assert law.collapse.batch_power == pytest.approx(power, abs=0.05)
    assert all(pace.low <= power + 0.02 and pace.high >= power - 0.02 for pace in law.paces) and len(law.paces) == 4
    json.dumps(law.as_json(), allow_nan=False)
    assert [f"as in P{paper}" in law.sentence() for paper in (1, 2)] == [answer == "samples", answer == "steps"]


def test_a_power_that_changes_with_the_batch_shows_in_its_paces(tmp_path: Path) -> None:
    runs = [written(tmp_path, batch, 3000 * max(1.0, 64 / batch)) for batch in BATCHES]
    law = batch_law(list(reversed(runs)))
    assert law.answer == "neither"
    assert law.paces[0].high < -0.6 and law.paces[-1].low > -0.4
    assert "from batch 16 to 32" in law.sentence() and "from batch 128 to 256" in law.sentence()


def test_only_runs_of_one_kind_are_compared(tmp_path: Path) -> None:
    runs = [written(tmp_path, batch, 3000) for batch in BATCHES[:3]]
    other = written(tmp_path, 64, 3000, n=32)
    with pytest.raises(UserError, match="differ in more"):
        batch_law([*runs, other])
    with pytest.raises(UserError, match="at least 3"):
        batch_law(runs[:2])
    assert [law.n for law in batch_laws([*runs, other])] == [64] and batch_laws(runs[:2]) == []


def test_the_report_shows_them(tmp_path: Path) -> None:
    runs = [written(tmp_path, batch, 5000 * 64 / batch) for batch in BATCHES]
    page = render([], Together(batches=batch_chapter(runs)))
    assert "Steps or samples seen?" in page and "as in P1" in page
    info = batch_info(batch_law(runs), "demo")
    assert info.lines["P2: independent"].std() == pytest.approx(0)
    at = info.lines["P1: ∝ 1/batch"] * info.places
    assert at.std() / at.mean() < 1e-9
    axis = draw_batches([info]).axes[0]
    assert [text.get_text() for text in axis.get_legend().get_texts()][-1].startswith("measured: -1.0")
    assert batch_chapter(runs[:1]) is None and "Steps or samples seen?" not in render([], Together())
