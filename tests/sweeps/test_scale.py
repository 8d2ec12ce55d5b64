"""A sweep of many cells: what is read from disk grows with the cells, not with the cells times the results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from many_runs import many_cells, write_cells

from twoclocks.runs import Run, load_run
from twoclocks.sweeps import coordinator, dispatch
from twoclocks.sweeps.cells import CellStatus
from twoclocks.sweeps.coordinator import Sweep
from twoclocks.sweeps.dispatch import Dispatch
from twoclocks.sweeps.executors import Job, JobResult, Pool
from twoclocks.testing.copies import write_copies
from twoclocks.training.stopping import StopRequest


class CopyingPool(Pool):
    """Finishes every job at once, with a copy of a run: the coordinator is left alone with its own work."""

    capacity = 2

    def __init__(self, template: Run, sweep: Sweep) -> None:
        self.template, self.settings = template, {cell.key: cell.settings for cell in sweep.plan.cells}
        self.results: list[JobResult] = []

    def start(self, job: Job) -> None:
        write_copies(self.template, [(Path(job.out), self.settings[job.key])])
        self.results.append(JobResult(job.key, "finished"))

    def wait(self, seconds: float) -> list[JobResult]:
        found, self.results = self.results, []
        return found

    def close(self) -> None:
        pass


def test_dispatching_reads_each_cell_a_few_times_however_often_progress_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = many_cells(seeds=3)
    write_cells(tmp_path / "one", type(plan)(plan.name, "", plan.cells[:1]))
    sweep = Sweep(plan, tmp_path / "out")
    reads: Counter[str] = Counter()
    read = coordinator.cell_status

    def counted(path: Path) -> CellStatus:
        reads[path.name] += 1
        return read(path)

    monkeypatch.setattr(coordinator, "cell_status", counted)
    monkeypatch.setattr(dispatch, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(dispatch, "REPORT_SHARE", 1e9)  # progress is shown after every result
    shown: list[str] = []

    def show(sweep: Sweep) -> None:
        assert not sweep.lines(("failed",))
        shown.append(sweep.summary())

    pool = CopyingPool(load_run(tmp_path / "template"), sweep)
    with StopRequest() as stop:
        Dispatch(sweep, pool, list(plan.cells), retries=0, checkpoint_seconds=30.0).run(stop, show)
    assert len(shown) >= len(plan.cells) / 2 and "30 finished" in shown[-1] and "14 finished" in " ".join(shown)
    assert sweep.counts() == {"finished": 30}
    assert max(reads.values()) <= 4, "a report must not ask the disk about cells that do not run"


def test_lists_and_tables_read_rows_once_per_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twoclocks.store import files

    plan = many_cells(seeds=1)
    write_cells(tmp_path / "out", plan)
    reads: Counter[str] = Counter()
    read = files.read

    def counted(path: Path, *more: Any) -> bytes:
        reads[path.name] += 1
        return read(path, *more)

    monkeypatch.setattr(files, "read", counted)
    sweep = Sweep(plan, tmp_path / "out")
    assert all(line["τ_rule"] for line in sweep.lines()) and reads["metrics.jsonl"] == len(plan.cells)
    rows = sweep.rows()
    assert reads["metrics.jsonl"] == 2 * len(plan.cells) and reads["manifest.json"] <= 10 * len(plan.cells)
    for row, cell in zip(rows, plan.cells, strict=True):
        clocks = load_run(tmp_path / "out" / "cells" / cell.key).clocks()
        assert (row["tau_mem_lower"], row["verdict"]) == (clocks.memory.lower, clocks.verdict)
