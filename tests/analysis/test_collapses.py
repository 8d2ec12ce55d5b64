"""P1's collapse over runs: sets that differ in N alone, their figure and their chapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.analysis.collapses import found_size_collapses
from twoclocks.cli import main
from twoclocks.core.theme import themed_svg
from twoclocks.report.collapses import collapse_data, draw_collapses
from twoclocks.report.page import render
from twoclocks.report.together import Together, chapters_together, collapse_chapter
from twoclocks.runs import Run, load_settings
from twoclocks.testing.runs import write_run

SIZES = (64, 128, 256, 512)


def written(path: Path, n: int, tau: float, **change: Any) -> Run:
    """A run that learns the rule early and copies from ``tau`` on."""
    base = {"rule.length": 30, "data.n": n, "training.steps": 20_000, "evaluation.evaluations": 60}
    settings = load_settings("demo-gpt", {**base, "evaluation.samples": 2048, **change})
    at = np.array(settings.schedule, dtype=float)
    copied = 1 / (1 + 9 * (at / tau) ** -4.0)
    columns = {"loss": np.ones_like(at), "sample_accuracy": np.ones_like(at), "sample_memorization": copied}
    return write_run(path / f"run-{len(list(path.iterdir()))}", settings, columns)


def sized(path: Path, power: float, scale: float = 640, **change: Any) -> list[Run]:
    return [written(path, n, scale * (n / 64) ** power, **change) for n in SIZES]


def test_sets_that_differ_in_n_alone_are_tested_apart(tmp_path: Path) -> None:
    """Batch 64 collapses and batch 32 does not; together they would be no test of sizes."""
    runs = sized(tmp_path, 1.0) + sized(tmp_path, 0.5, **{"training.batch": 32})
    few = [written(tmp_path, n, 10 * n, **{"model.width": 32}) for n in SIZES[:2]]
    found = {one.label: one.collapse for one in found_size_collapses([*runs, *few])}
    assert {label.split("training.batch ")[1]: one.answer for label, one in found.items()} == {"64": "yes", "32": "no"}
    assert [one.batch for one in found.values()] == [64, 32]


def test_the_figure_shows_curves_and_onsets_on_both_times(tmp_path: Path) -> None:
    (info,) = collapse_data([*sized(tmp_path, 1.0), written(tmp_path, 1024, 1e6, **{"training.steps": 9000})])
    assert info.sizes == [*SIZES, 1024] and info.collapse.answer == "undecided" and info.threshold == 0.1
    figure = draw_collapses([info])
    left, right = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == [f"N = {n:,}" for n in info.sizes]
    assert right.get_xlabel() == "steps·batch/N   (batch 64)" and "unknown factor" in right.get_title()
    (a, b), (c, d) = left.get_xlim(), right.get_xlim()
    assert b / a == pytest.approx(d / c)  # distances on the two axes can be compared
    # Where the drawn lines reach half: apart by 8 on the left, together on the right.
    curves = [[line for line in axis.lines if len(line.get_xdata()) > 10] for axis in (left, right)]
    halves = [[np.interp(0.5, line.get_ydata(), line.get_xdata()) for line in lines[:4]] for lines in curves]
    assert max(halves[0]) / min(halves[0]) == pytest.approx(8, rel=0.05)
    assert max(halves[1]) / min(halves[1]) == pytest.approx(1, rel=0.05)
    assert len(right.texts) == 1  # the arrow of the censored run
    assert themed_svg(figure, salt="x").startswith("<svg")


def test_the_page_and_the_command_report_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = sized(tmp_path, 1.3)
    page = " ".join(render([], Together(collapses=collapse_chapter(runs))).split())
    assert "Collapse: memorization curves on steps·batch/N" in page and "they do not collapse within ×1.5" in page
    assert chapters_together(runs).collapses is not None and collapse_chapter(runs[:2]) is None
    assert "Collapse: memorization" not in render([], Together())
    assert main(["fit", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Collapse over N (as in P1, Fig. 2H): at batch 64, N from 64 to 512" in printed
    assert "they do not collapse within ×1.5" in printed and "cannot be distinguished" not in printed
