"""A sweep on this machine: every cell is finished once, even if processes are killed."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_sweep import cell_contents, write_spec
from warm import WarmCommand

from twoclocks.cli import main
from twoclocks.core.arguments import as_overrides
from twoclocks.core.exit_codes import EXIT_FAILED, EXIT_STOPPED
from twoclocks.runs import load_run, run
from twoclocks.store import verify_tree
from twoclocks.store.lock import WriterLock
from twoclocks.sweeps import EXECUTORS, read_plan, run_sweep
from twoclocks.sweeps.dispatch import Dispatch
from twoclocks.sweeps.executors import Executor, JobResult, executor_of
from twoclocks.sweeps.table import with_one_type, write_table

LOCAL = EXECUTORS.create("local", workers=2)


def test_a_sweep_runs_every_cell_once_and_writes_the_same_numbers_as_single_runs(tmp_path: Path) -> None:
    from pyarrow import parquet

    plan = read_plan(write_spec(tmp_path / "small.yaml", grid={"data.n": [4, 6]}, seeds={"training": 2}))
    done = run_sweep(plan, tmp_path / "out", LOCAL)
    assert done.counts() == {"finished": 4} and set(done.attempts.values()) == {1}
    rows = parquet.read_table(tmp_path / "out" / "table.parquet").to_pylist()
    with (tmp_path / "out" / "table.csv").open() as stream:
        text = list(csv.DictReader(stream))
    assert [row["cell"] for row in rows] == [row["cell"] for row in text] == [cell.key for cell in plan.cells]
    for row, line, cell in zip(rows, text, plan.cells, strict=True):
        single = run(cell.settings, tmp_path / "single" / cell.key)
        clocks = load_run(tmp_path / "out" / "cells" / cell.key).clocks()
        assert clocks == single.clocks()
        assert (row["tau_mem_lower"], row["tau_mem_status"]) == (clocks.memory.lower, clocks.memory.status)
        assert row["tau_mem_upper"] == (clocks.memory.upper if clocks.memory.status != "right-censored" else None)
        assert (row["data.n"], row["training.seed"]) == (cell.settings.data.n, cell.settings.training.seed)
        assert row["verdict"] == clocks.verdict and float(line["training.learning_rate"]) == 3e-3
        assert json.loads(row["evaluation.steps"]) == [0, 5, 20, 40, 60]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("*") if path.is_file()}
    again = run_sweep(plan, tmp_path / "out", LOCAL)
    assert not again.attempts and again.rows() == done.rows()  # finished cells are skipped
    assert before == {
        path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").rglob("*") if path.is_file()
    }
    wider = read_plan(write_spec(tmp_path / "small.yaml", grid={"data.n": [4, 6, 8]}, seeds={"training": 2}))
    assert sum(run_sweep(wider, tmp_path / "out", LOCAL).attempts.values()) == 2  # a grid can grow
    assert all(findings.intact for findings in verify_tree(tmp_path / "out"))


def test_cells_that_diverge_do_not_fit_or_fail_cost_only_themselves(tmp_path: Path) -> None:
    """Out of memory: retried once, alone. A failure: retried as often as allowed. Divergence is a result."""
    grid = {"training.learning_rate": [3e-3, 1e30], "training.batch": [8, 10**6], "model.width": [16, 4096]}
    spec = write_spec(tmp_path / "mixed.yaml", grid=grid)
    plan = read_plan(spec)
    wanted = {(3e-3, 8, 16): "finished", (1e30, 8, 16): "diverged", (3e-3, 10**6, 4096): "failed"}
    chosen = [cell for cell in plan.cells if tuple(cell.point.values()) in wanted]
    done = run_sweep(type(plan)(plan.name, "", tuple(chosen)), tmp_path / "out", LOCAL, retries=2)
    states = {tuple(cell.point.values()): done.cell_status(cell) for cell in chosen}
    assert {point: found.state for point, found in states.items()} == wanted
    attempts = {tuple(cell.point.values()): done.attempts[cell.key] for cell in chosen}
    assert attempts == {(3e-3, 8, 16): 1, (1e30, 8, 16): 1, (3e-3, 10**6, 4096): 2}
    assert "does not fit" in states[3e-3, 10**6, 4096].reason
    assert "learning_rate" in states[1e30, 8, 16].reason
    rows = {row["training.learning_rate"]: row for row in done.rows() if row["state"] != "failed"}
    assert rows[1e30]["verdict"] == "unknown" and rows[3e-3]["verdict"] is not None


def test_failures_are_retried_then_reported_with_their_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path / "bad.yaml", grid={"data.n": [4, 6]})
    keys = [cell.key for cell in read_plan(spec).cells]
    (tmp_path / "out" / "cells").mkdir(parents=True)
    (tmp_path / "out" / "cells" / keys[0]).write_text("a file in the place of a folder")
    assert main(["sweep", str(spec), "--out", str(tmp_path / "out"), "--retries", "1", "--json"]) == EXIT_FAILED
    status = json.loads(capsys.readouterr().out)
    assert status["counts"] == {"failed": 1, "finished": 1} and status["cells"][0]["cell"] == keys[0]
    assert "not an empty folder" in status["cells"][0]["reason"]
    (tmp_path / "out" / "cells" / keys[0]).unlink()
    assert main(["sweep", str(spec), "--out", str(tmp_path / "out")]) == 0
    assert "2 finished" in capsys.readouterr().out


def test_plan_and_status_run_nothing(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_spec(work / "mine.yaml", grid={"data.n": [4, 6]}, seeds={"data": 2})
    assert main(["sweep", "mine.yaml", "--plan", "--training.steps", "60"]) == 0
    assert "4 waiting" in capsys.readouterr().out and [path.name for path in work.iterdir()] == ["mine.yaml"]
    assert main(["sweep", "--status", "--json", "mine.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"waiting": 4}
    for words in (["nothing.yaml"], ["mine.yaml", "--executor", "slurm"], ["mine.yaml", "--executor.cpus", "1"]):
        assert main(["sweep", *words]) == 2
        assert len(capsys.readouterr().err.strip().split("\n")) == 1
    with pytest.raises(SystemExit):
        main(["sweep", "--plan"])
    assert "required: SPEC.yaml" in capsys.readouterr().err


def start_sweep(spec: Path, out: Path, fresh: bool) -> subprocess.Popen[str] | WarmCommand:
    words = ["sweep", str(spec), "--out", str(out), "--workers", "2", "--checkpoint-seconds", "0"]
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    if fresh:
        return subprocess.Popen([sys.executable, "-m", "twoclocks", *words], text=True, **pipes)
    return WarmCommand(words, **pipes)


def wait_for_rows(out: Path, process: subprocess.Popen[str] | WarmCommand) -> None:
    while not list(out.glob("cells/*/metrics.jsonl")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


LONG = {"training.steps": 160, "evaluation.steps": [0, *range(10, 161, 10)]}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The cells of the long sweep when nothing happens to it."""
    folder = tmp_path_factory.mktemp("whole")
    run_sweep(read_plan(write_spec(folder / "long.yaml", set=LONG, seeds={"training": 2})), folder / "out", LOCAL)
    return cell_contents(folder / "out")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_is_stopped_or_killed_goes_on_where_it_was(
    tmp_path: Path, number: signal.Signals, uninterrupted: dict[str, str]
) -> None:
    spec = write_spec(tmp_path / "long.yaml", set=LONG, seeds={"training": 2})
    process = start_sweep(spec, tmp_path / "out", fresh=number == signal.SIGTERM)
    wait_for_rows(tmp_path / "out", process)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == (EXIT_STOPPED if number == signal.SIGTERM else -9)
    done = run_sweep(read_plan(spec), tmp_path / "out", LOCAL)
    assert done.counts() == {"finished": 2}
    attempts = [len(load_run(path).status["attempts"]) for path in (tmp_path / "out" / "cells").iterdir()]
    assert max(attempts) >= 2  # a cell was in the middle
    assert cell_contents(tmp_path / "out") == uninterrupted


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path / "mine.yaml")
    (tmp_path / "out").mkdir()
    with WriterLock(tmp_path / "out"):
        assert main(["sweep", str(spec), "--out", str(tmp_path / "out")]) == 2
    assert f"process {os.getpid()}" in capsys.readouterr().err


def test_a_cell_that_another_process_writes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is released only after a worker has found it."""
    plan = read_plan(write_spec(tmp_path / "mine.yaml"))
    cell = tmp_path / "out" / "cells" / plan.cells[0].key
    cell.mkdir(parents=True)
    lock = WriterLock(cell)
    lock.__enter__()
    outcomes: list[str] = []
    handle_result = Dispatch.handle_result

    def handling(self: Dispatch, result: JobResult) -> None:
        outcomes.append(result.outcome)
        if outcomes == ["busy"]:
            lock.__exit__(None, None, None)
        handle_result(self, result)

    monkeypatch.setattr(Dispatch, "handle_result", handling)
    assert run_sweep(plan, tmp_path / "out", LOCAL, retries=0).counts() == {"finished": 1}
    assert outcomes == ["busy", "finished"]


def test_a_cell_with_lost_rows_or_of_another_run_is_not_skipped(tmp_path: Path) -> None:
    plan = read_plan(write_spec(tmp_path / "mine.yaml", seeds={"training": 2}))
    run_sweep(plan, tmp_path / "out", LOCAL)
    first, second = (tmp_path / "out" / "cells" / cell.key for cell in plan.cells)
    whole = cell_contents(tmp_path / "out")
    rows = (first / "metrics.jsonl").read_bytes()
    (first / "metrics.jsonl").write_bytes(b"".join(rows.splitlines(keepends=True)[:2]))
    again = run_sweep(plan, tmp_path / "out", LOCAL)
    assert again.attempts == {plan.cells[0].key: 1} and cell_contents(tmp_path / "out") == whole
    (tmp_path / "out" / ".shared-0123.partial").touch()  # of a coordinator that was killed
    assert not run_sweep(plan, tmp_path / "out", LOCAL).attempts
    assert not (tmp_path / "out" / ".shared-0123.partial").exists()
    shutil.rmtree(first)
    shutil.copytree(second, first)
    assert any("belongs to another cell" in line for one in verify_tree(tmp_path / "out") for line in one.damage)
    mixed = run_sweep(plan, tmp_path / "out", LOCAL, retries=0)
    assert mixed.counts() == {"finished": 1, "failed": 1} and "other settings" in mixed.failures[plan.cells[0].key]
    assert mixed.rows()[0]["tau_mem_lower"] is None and mixed.rows()[1]["tau_mem_lower"] is not None


def test_a_folder_with_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path / "mine.yaml")
    run(read_plan(spec).cells[0].settings, tmp_path / "run")
    for folder in (tmp_path / "run", tmp_path):
        assert main(["sweep", str(spec), "--out", str(folder)]) == 2
    assert "already holds a run" in capsys.readouterr().err
    words = ["--executor", "ray", "--executor.address", "127.0.0.1:1"]
    assert main(["sweep", str(spec), "--out", str(tmp_path / "new"), *words]) == 2
    assert "does not answer" in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_executors_are_chosen_by_options() -> None:
    overrides = as_overrides(["--data.n", "5", "--executor.cells_per_gpu", "8", "--training.seed=1"])
    executor, rest = executor_of("local", 3, overrides)
    assert isinstance(executor, Executor) and (executor.workers, executor.cells_per_gpu) == (3, 8)
    assert rest == {"data": {"n": 5}, "training": {"seed": 1}}


def test_columns_have_one_type() -> None:
    assert (
        with_one_type([1, None, 2.5]) == [1.0, None, 2.5]
        and with_one_type([1, "a"]) == ["1", "a"]
        and with_one_type([1, 2]) == [1, 2]
    )


def test_tables_of_different_sweeps_fit_together(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    tables = []
    for number, upper in enumerate((None, 5.0)):
        (tmp_path / str(number)).mkdir()
        write_table([{"cell": "a", "tau_mem_upper": upper, "evaluation.steps": None}], tmp_path / str(number))
        tables.append(parquet.read_table(tmp_path / str(number) / "table.parquet"))
    assert pyarrow.concat_tables(tables)["tau_mem_upper"].to_pylist() == [None, 5.0]


def test_a_finished_cell_that_cannot_be_read_is_shown_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path / "two.yaml", seeds={"training": 2})
    assert main(["sweep", str(spec), "--out", str(tmp_path / "out")]) == 0
    (tmp_path / "out" / "cells" / read_plan(spec).cells[0].key / "metrics.jsonl").write_text("")
    capsys.readouterr()
    assert main(["sweep", str(spec), "--out", str(tmp_path / "out"), "--status"]) == EXIT_FAILED
    assert "1 finished, 1 failed" in capsys.readouterr().out
    assert main(["sweep", str(spec), "--out", str(tmp_path / "out"), "--status", "--json"]) == EXIT_FAILED
    found = json.loads(capsys.readouterr().out)["cells"][0]
    assert found["state"] == "failed" and "has 0 rows, the run ended with 5" in found["reason"]
