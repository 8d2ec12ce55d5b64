"""Rows that are missing at the end of a run, and artifacts that were damaged before it continued, are named."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_runs import SMALL_MODEL, TINY
from test_lost_folder import contents

from twoclocks.cli import main
from twoclocks.runs import Progress, Run, load_run, load_settings, run
from twoclocks.store import verify_tree
from twoclocks.store.checksums import encode_document


def lose_end(path: Path, rows: int = 2) -> None:
    """Cut whole rows off metrics and timings: what is left has right checksums."""
    for name in ("metrics.jsonl", "timings.jsonl"):
        lines = (path / name).read_bytes().splitlines(keepends=True)
        (path / name).write_bytes(b"".join(lines[:-rows]))


def damage_status(path: Path) -> None:
    (path / "status.json").write_bytes((path / "status.json").read_bytes().replace(b"finished", b"finishee"))


def other_status(path: Path) -> None:
    (path / "status.json").write_bytes(encode_document({"status": 5}))


STATUS = {"missing": lambda path: (path / "status.json").unlink(), "damaged": damage_status, "another": other_status}


@pytest.mark.parametrize("how", STATUS)
def test_readers_say_that_the_end_cannot_be_proven(
    how: str, tmp_path: Path, tiny_gpt: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    shutil.copytree(tiny_gpt.path, path)
    STATUS[how](path)
    lose_end(path)
    assert main(["clocks", str(path)]) == 0 and main(["report", str(path)]) == 0
    assert capsys.readouterr().err.count("its end cannot be proven: status.json is ") == 1  # once per process
    assert main(["clocks", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["unproven_end"].startswith("status.json is ")
    assert "The end of this run cannot be proven: status.json is " in (tmp_path / "run-report.html").read_text()
    assert load_run(path).unproven_end and not load_run(tiny_gpt.path).unproven_end
    assert not verify_tree(path)[0].intact


def test_the_line_comes_from_the_library_too(tmp_path: Path, tiny_gpt: Run, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run"
    shutil.copytree(tiny_gpt.path, path)
    (path / "status.json").unlink()
    with caplog.at_level(logging.WARNING, "twoclocks"):
        load_run(path).clocks()
        load_run(path).metrics()
    assert caplog.text.count("its end cannot be proven: status.json is missing; rows may be missing") == 1


def stopped_at(path: Path, step: int, settings: Any, error: BaseException) -> None:
    def observe(progress: Progress) -> None:
        if progress.step >= step:
            raise error

    with pytest.raises(type(error)):
        run(settings, path, observe, checkpoint_seconds=0)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken")])
def test_the_end_of_an_unfinished_run_is_proven_by_its_status_and_its_checkpoints(
    error: BaseException, tmp_path: Path, tiny_gpt: Run
) -> None:
    path = tmp_path / "run"
    stopped_at(path, 45, tiny_gpt.settings, error)
    assert load_run(path).unproven_end == "" and verify_tree(path)[0].intact
    shutil.copytree(path, tmp_path / "running")
    (tmp_path / "running" / "status.json").write_bytes(encode_document({"status": "running"}))
    assert load_run(tmp_path / "running").unproven_end == ""
    lose_end(path, rows=1)
    lose_end(tmp_path / "running", rows=1)
    assert load_run(path).unproven_end == "metrics.jsonl has 3 rows, the run ended with 4"
    assert "lacks rows that the checkpoint of step 4" in load_run(tmp_path / "running").unproven_end
    assert not any(found.intact for found in verify_tree(tmp_path))


def test_a_killed_start_between_status_and_rows_proves_nothing_wrong(tmp_path: Path, tiny_gpt: Run) -> None:
    """A run that failed has rows after its checkpoint; the next start removes them, after it has said ``running``."""
    path = tmp_path / "run"

    def fail(progress: Progress) -> None:
        if progress.step >= 20 and progress.evaluated:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        run(tiny_gpt.settings, path, fail)
    assert len(load_run(path).rows()) == 3 and load_run(path).status["rows"] == 3
    child = os.fork()
    if child == 0:
        from twoclocks.store.run_directory import RunDirectory

        rewind = RunDirectory.rewind

        def rewind_and_die(self: RunDirectory, to: Any) -> None:
            rewind(self, to)
            os._exit(9)

        RunDirectory.rewind = rewind_and_die  # type: ignore[method-assign]
        run(tiny_gpt.settings, path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert load_run(path).status["status"] == "running" and load_run(path).unproven_end == ""
    assert contents(run(tiny_gpt.settings, path).path) == contents(tiny_gpt.path)


@pytest.mark.parametrize("kind", ["samples", "weights"])
def test_damaged_artifacts_of_an_unfinished_run_are_named_and_computed_again(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Weights are stored with every second evaluation, so some samples can be computed again and others cannot."""
    settings = load_settings(
        "demo-gpt", {**TINY, "model": SMALL_MODEL, "evaluation": {**TINY["evaluation"], "keep_weights": 3}}
    )
    whole = run(settings, tmp_path / "whole")
    kept = set(whole.directory.artifact_steps("weights"))
    path = tmp_path / "run"
    stopped_at(path, 45, settings, KeyboardInterrupt())
    damaged = [step for step in (0, 5, 20, 40) if kind == "samples" or step in kept]
    assert kept & set(damaged) and (kind == "weights" or set(damaged) - kept)
    for step in damaged:
        file = path / kind / f"step-{step:09d}.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"?") if step else file.unlink()
    with caplog.at_level(logging.WARNING, "twoclocks"):
        done = run(settings, path)
    lost = [step for step in damaged if kind == "weights" or step not in kept]
    assert done.status.get("lost", []) == [f"{kind}/step-{step:09d}.safetensors" for step in lost]
    assert caplog.text.count("it was computed again") == len(damaged) - len(lost)
    assert caplog.text.count("it cannot be computed again") == len(lost)
    for step in set(damaged) - set(lost):
        name = f"{kind}/step-{step:09d}.safetensors"
        assert (path / name).read_bytes() == (whole.path / name).read_bytes()
    assert done.rows() == whole.rows()
    assert len(verify_tree(path)[0].damage) == len(lost)
