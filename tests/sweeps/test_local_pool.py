"""The processes of the local executor: short jobs share them, and the death of one costs only its own job."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from small_sweep import write_spec

from twoclocks.core.config import to_mapping
from twoclocks.store.lock import WriterLock
from twoclocks.sweeps import read_plan
from twoclocks.sweeps.executors import Job, JobResult
from twoclocks.sweeps.local import LocalPool


class Processes(dict[str, int]):
    """The processes of the jobs, also of those that have ended."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def __setitem__(self, key: str, process: int) -> None:
        self.all[key] = process
        super().__setitem__(key, process)


def run_one(pool: LocalPool, job: Job) -> JobResult:
    pool.start(job)
    while not (results := pool.wait(5)):
        pass
    return results[0]


def test_short_jobs_share_a_process_whose_death_costs_one_job(tmp_path: Path) -> None:
    quick = {"training.steps": 1, "evaluation.steps": [1]}
    plan = read_plan(write_spec(tmp_path / "small.yaml", set=quick, seeds={"training": 9}))
    jobs = [Job(cell.key, to_mapping(cell.settings), str(tmp_path / cell.key), 30.0) for cell in plan.cells]
    with LocalPool(capacity=1, devices=0) as pool:
        pool.processes = processes = Processes()

        def process_of(job: Job, outcome: str = "finished") -> int:
            found = run_one(pool, job)
            assert found.outcome == outcome, found
            return processes.all[job.key]

        first = process_of(jobs[1])
        assert process_of(jobs[2]) == first
        os.kill(first, signal.SIGKILL)  # while it waits: nothing is lost
        while Path(f"/proc/{first}").exists():
            time.sleep(0.01)
        second = process_of(jobs[3])
        assert second != first
        (tmp_path / jobs[4].key).mkdir()
        with WriterLock(tmp_path / jobs[4].key):  # another process writes it: after that, a process ends
            assert process_of(jobs[4], "busy") == second
        third = process_of(jobs[5])
        assert third != second
        pool.start(jobs[6])
        while jobs[6].key not in processes.all:
            pool.wait(0.001)
        os.kill(processes.all[jobs[6].key], signal.SIGKILL)
        while not (lost := pool.wait(5)):
            pass
        assert lost[0].outcome in ("lost", "finished") and "SIGKILL" in (lost[0].reason or "SIGKILL")
        assert process_of(jobs[7]) != third


def test_a_process_that_could_not_finish_a_cell_of_several_gets_no_other_job(tmp_path: Path) -> None:
    quick = {"training.steps": 1, "evaluation.steps": [1]}
    plan = read_plan(write_spec(tmp_path / "small.yaml", set=quick, seeds={"training": 5}))
    cells = [
        {"key": one.key, "settings": to_mapping(one.settings), "out": str(tmp_path / one.key)} for one in plan.cells
    ]
    (tmp_path / plan.cells[2].key).mkdir()
    with LocalPool(capacity=1, devices=0) as pool, WriterLock(tmp_path / plan.cells[2].key):
        pool.processes = processes = Processes()
        for first, *others in (cells[1:3], cells[3:]):
            pool.start(Job(**first, checkpoint_seconds=30.0, others=tuple(others)))
            while not pool.wait(5):
                pass
    assert processes.all[plan.cells[1].key] != processes.all[plan.cells[3].key]
