"""Training that ends itself: the monitor everybody else uses, in our own loop (``clocks.stop``)."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import twoclocks as tc
from twoclocks.clocks.series import Look
from twoclocks.core.errors import SettingError
from twoclocks.runs import Progress, Run, load_run, load_settings, run
from twoclocks.runs.columns import clock_columns
from twoclocks.store import verify_tree
from twoclocks.training.stopping import StoppedError

MEMORIZES = {
    "rule": {"length": 20, "group": 2},
    "data.n": 16,
    "model": {"width": 32, "depth": 2, "heads": 2},
    "training": {"steps": 300, "batch": 16, "learning_rate": 2e-3, "threads": 1},
    "evaluation": {"samples": 400, "steps": list(range(0, 301, 20)), "loss_rows": 32, "keep_samples": 0},
    "clocks": {"sustain": 2},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(load_settings("demo-gpt", MEMORIZES), tmp_path_factory.mktemp("stop") / "whole")


def stopping(policy: str) -> dict[str, object]:
    return {**MEMORIZES, "clocks": {"sustain": 2, "stop": policy}}


def test_a_run_stops_where_its_monitor_would_and_is_the_same_until_then(whole: Run, tmp_path: Path) -> None:
    memory = whole.clocks().memory
    assert memory.seen and memory.upper < 250
    looks = whole.metrics()["step"]
    proven = looks[np.flatnonzero(looks == memory.upper)[0] + 1]  # the second evaluation in a row
    done = run(load_settings("demo-gpt", stopping("memory")), tmp_path / "run")
    assert done.status["status"] == "finished" and done.status["stopped_at"] == proven
    assert done.status["reason"].startswith(f"clocks.stop = memory: memory: {memory}; copies above 0.1 with 95%")
    for name, values in done.metrics().items():
        assert np.array_equal(values, whole.metrics()[name][: len(values)], equal_nan=True), name
    assert done.clocks().memory == memory and done.directory.checkpoint_steps()[-1] == proven
    assert all(one.intact for one in verify_tree(tmp_path))


def test_caution_stops_before_memory_is_certain(whole: Run, tmp_path: Path) -> None:
    done = run(load_settings("demo-gpt", stopping("caution")), tmp_path / "run")
    assert 0 < done.status["stopped_at"] < whole.clocks().memory.upper
    assert done.metrics()["sample_memorization"][:-1].max() < 0.1


def test_a_stopped_run_is_finished_and_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings("demo-gpt", stopping("caution"))
    first = run(settings, tmp_path / "run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with caplog.at_level(logging.INFO, logger="twoclocks"):
        again = run(settings, tmp_path / "run")
    assert "is finished" in caplog.text and again.status["stopped_at"] == first.status["stopped_at"]
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_an_interrupted_run_goes_on_to_the_same_stop(whole: Run, tmp_path: Path) -> None:
    settings = load_settings("demo-gpt", stopping("memory"))
    straight = run(settings, tmp_path / "straight")

    def interrupt(progress: Progress) -> None:
        if progress.evaluated and progress.step == 60:
            raise StoppedError("test")

    with pytest.raises(StoppedError):
        run(settings, tmp_path / "parts", interrupt)
    assert load_run(tmp_path / "parts").status["status"] == "interrupted"
    parts = run(settings, tmp_path / "parts")
    assert parts.status["stopped_at"] == straight.status["stopped_at"]
    assert (tmp_path / "parts" / "metrics.jsonl").read_bytes() == (tmp_path / "straight" / "metrics.jsonl").read_bytes()


def test_observers_can_ask_the_monitor(tmp_path: Path) -> None:
    phases = []

    def ask(progress: Progress) -> None:
        if progress.evaluated:
            phases.append(progress.monitor.decision().phase)

    run(load_settings("demo-gpt", MEMORIZES), tmp_path / "run", ask)
    assert phases[0] == "learning" and phases[-1] == "copying" and len(phases) == 16


def test_rows_without_the_error_of_the_gap_give_a_gap_without_bounds(whole: Run) -> None:
    """As in runs that were begun before it was measured, and continued since."""
    rows = list(whole.directory.metrics())
    old = [{key: value for key, value in row.items() if key != "loss_gap_error"} for row in rows[:8]]
    monitor = tc.Monitor(whole.evaluator.train, whole.settings.rule, whole.settings.clocks)
    for row in [*old, *rows[8:]]:
        monitor.record(Look.from_row(row, clock_columns(whole.settings.rule.part_counts())))
    mixed, certain = monitor.clocks().gap, whole.clocks().gap
    assert mixed is not None and "no bounds" in (mixed.definition or "") and certain is not None
    assert "bounds of 0.95" in (certain.definition or "") and mixed.interpolated == certain.interpolated


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(SettingError, match=r"clocks\.stop"):
        load_settings("demo-gpt", {"clocks.stop": "maybe"})
    assert tc.clocks.ClockSettings().stop == "never"
