"""Runs that differ in their batch: the power of the batch, and whose answer it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.analysis.batches import batch_law, batch_laws
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.errors import UserError
from twoclocks.report.batches import batch_info, draw_batches
from twoclocks.report.page import render
from twoclocks.report.together import Together, batch_chapter
from twoclocks.runs import Run, load_settings
from twoclocks.testing.runs import write_run

BATCHES = (16, 32, 64, 128, 256)


def written(path: Path, batch: int, tau: float, n: int = 256, learned: float = 1.0, **more: Any) -> Run:
    """A run that copies from ``tau`` on; it learns the rule at step ``learned``, by default before it is evaluated."""
    evaluation = {"evaluations": 60, "first": 10, "samples": 2048, "quantization": [0.5]}
    change = {"data.n": n, "training": {"steps": 100_000, "batch": batch}, "evaluation": evaluation}
    settings = load_settings("demo", {**change, "clocks.confidence": 0, **more})
    at = np.array(settings.schedule, dtype=float)
    copied = 1 / (1 + (at / tau) ** -8.0) * 0.8 + 1e-4
    ones = np.ones_like(at)
    valid = 1 / (1 + (at / learned) ** -12.0)
    columns = {"loss": ones, "sample_accuracy": valid, "sample_memorization": copied, "valid_new": 1 - copied}
    return write_run(path / f"b{batch}-n{n}", settings, columns)


@pytest.mark.parametrize(("power", "answer"), [(-1.0, "samples"), (0.0, "steps"), (-0.5, "neither"), (0.6, "neither")])
def test_whose_answer(tmp_path: Path, power: float, answer: str) -> None:
    runs = [written(tmp_path, batch, 5000 * (batch / 64) ** power) for batch in BATCHES]
    law = batch_law(runs)
    assert law.answer == answer and law.batches == BATCHES
    assert law.collapse.batch_power == pytest.approx(power, abs=0.05)
    assert all(pace.low <= power + 0.02 and pace.high >= power - 0.02 for pace in law.paces) and len(law.paces) == 4
    json.dumps(law.as_json(), allow_nan=False)
    assert law.left_out == () and ("it depends on samples seen" in law.sentence()) == (answer == "samples")
    # What P2 claims is about one hidden layer, and the sentence does not make it a claim about this model.
    assert ("as P2 shows for one hidden layer at fixed σ" in law.sentence()) == (answer != "samples")


def test_an_interval_that_holds_an_answer_and_much_else_is_undecided(tmp_path: Path) -> None:
    """Three scattered onsets about power −0.6: the interval contains −1."""
    runs = [written(tmp_path, batch, tau) for batch, tau in ((32, 9000), (64, 3600), (128, 3300))]
    law = batch_law(runs)
    assert law.collapse.batch_power_ci[0] < -1 < law.collapse.batch_power_ci[1]
    assert law.answer == "undecided" and ": undecided; −1 would be samples seen" in law.sentence()


def test_runs_that_are_no_fair_comparison_are_named_and_left_out(tmp_path: Path) -> None:
    """N smaller than the batch, a rule that is not learned, one that is learned by copying."""
    fair = [written(tmp_path, batch, 5000 * 64 / batch) for batch in (8, 16, 32, 64)]
    large = written(tmp_path, 512, 4000)
    never = written(tmp_path, 128, 4000, learned=1e9)
    copied = written(tmp_path, 256, 4000, learned=6000)
    law = batch_law([large, *fair, never, copied])
    assert law.batches == (8, 16, 32, 64) and law.answer == "samples"
    assert law.collapse == batch_law(fair).collapse
    expected = [
        "batch 128 (the rule is not learned)",
        "batch 256 (the rule is not learned before τ_mem)",
        "batch 512 (N = 256 is smaller)",
    ]
    assert list(law.left_out) == law.as_json()["left_out"] == expected
    assert law.sentence().endswith(f"left out: {', '.join(expected)}")
    few = [*fair[:2], never, large]
    with pytest.raises(UserError, match=r"too few .* without batch 128 \(the rule is not learned\), batch 512"):
        batch_law(few)
    chapter = batch_chapter(few)
    assert chapter is not None and chapter.figure == "" and batch_laws(few) == []
    assert "No power of the batch: all runs, N = 256: training.batch: [8, 16]" in render([], Together(batches=chapter))


def test_where_everything_is_valid_there_is_no_rule_to_learn(tmp_path: Path) -> None:
    free = {"rule": {"name": "free", "length": 12, "alphabet": 4}}
    runs = [written(tmp_path, batch, 5000, learned=1e9, **free) for batch in BATCHES]
    assert batch_law(runs).answer == "steps"


def test_a_power_that_changes_with_the_batch_shows_in_its_paces(tmp_path: Path) -> None:
    runs = [written(tmp_path, batch, 3000 * max(1.0, 64 / batch)) for batch in BATCHES]
    law = batch_law(list(reversed(runs)))
    assert law.answer == "undecided"  # one power does not describe them
    assert law.paces[0].high < -0.6 and law.paces[-1].low > -0.4
    assert "from batch 16 to 32" in law.sentence() and "from batch 128 to 256" in law.sentence()


def test_only_runs_of_one_kind_are_compared(tmp_path: Path) -> None:
    runs = [written(tmp_path, batch, 3000) for batch in BATCHES[:3]]
    other = written(tmp_path, 64, 3000, n=64)
    with pytest.raises(UserError, match="differ in more"):
        batch_law([*runs, other])
    with pytest.raises(UserError, match="at least 3"):
        batch_law(runs[:2])
    assert [law.n for law in batch_laws([*runs, other])] == [256] and batch_laws(runs[:2]) == []


def test_the_report_shows_them(tmp_path: Path) -> None:
    runs = [written(tmp_path, batch, 5000 * 64 / batch) for batch in BATCHES]
    page = render([], Together(batches=batch_chapter(runs)))
    assert "Steps or samples seen?" in page and "it depends on samples seen" in page
    info = batch_info(batch_law(runs), "demo")
    assert info.lines["steps: independent (P2: one hidden layer, fixed σ)"].std() == pytest.approx(0)
    at = info.lines["samples seen: ∝ 1/batch (P1's time)"] * info.places
    assert at.std() / at.mean() < 1e-9
    axis = draw_batches([info]).axes[0]
    assert [text.get_text() for text in axis.get_legend().get_texts()][-1].startswith("measured: -1.0")
    assert batch_chapter(runs[:1]) is None and "Steps or samples seen?" not in render([], Together())


def test_seeds_of_one_batch_are_one_place_of_the_local_power(tmp_path: Path) -> None:
    runs = [
        written(tmp_path / f"seed{seed}", batch, 5000 * (1 + 0.03 * seed) * 64 / batch, **{"data.seed": seed})
        for batch in BATCHES
        for seed in range(3)
    ]
    law = batch_law(runs)
    assert law.answer == "samples" and [pace.batches for pace in law.paces] == [
        (16, 32),
        (32, 64),
        (64, 128),
        (128, 256),
    ]
    assert all(pace.low < -1 < pace.high for pace in law.paces)
    assert {batch: len(found) for batch, found in law.as_json()["onsets"].items()} == {str(b): 3 for b in BATCHES}


def test_other_clocks_than_the_runs_own_can_be_read(tmp_path: Path) -> None:
    """Own clocks ask for 70% copies, 2 times later than 10%; the power is the same."""
    runs = [written(tmp_path, batch, 5000 * 64 / batch, **{"clocks.memory_threshold": 0.7}) for batch in BATCHES]
    printed = ClockSettings(confidence=0)
    own, other = batch_law(runs), batch_law(runs, read=lambda run: printed.read(run.series(), 0.0, changes=False))
    assert other.collapse.batch_power == pytest.approx(own.collapse.batch_power, abs=0.05)
    assert all(late.lower > early.upper for late, early in zip(own.onsets, other.onsets, strict=True))
