"""Which cells are retried, when, and how: the coordinator with a pool whose outcomes are scripted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_sweep import write_spec

from twoclocks.core.config import to_mapping
from twoclocks.sweeps import Plan, Sweep, read_plan
from twoclocks.sweeps import dispatch as dispatching
from twoclocks.sweeps.dispatch import Dispatch
from twoclocks.sweeps.executors import Job, JobResult, Pool
from twoclocks.sweeps.fork_server import GRACE
from twoclocks.sweeps.local import LocalPool
from twoclocks.training.stopping import StopRequest


class ScriptedPool(Pool):
    """Ends each job with the next outcome in the script of its cell, and records the jobs."""

    def __init__(self, scripts: dict[str, list[str]], capacity: int) -> None:
        self.scripts, self._capacity = scripts, capacity
        self.running: list[Job] = []
        self.given: list[Job] = []
        self.most = 0

    @property
    def capacity(self) -> int:
        return self._capacity

    def start(self, job: Job) -> None:
        self.running.append(job)
        self.given.append(job)
        self.most = max(self.most, len(self.running))
        assert not job.alone or len(self.running) == 1, "alone means alone"

    def wait(self, seconds: float) -> list[JobResult]:
        if not self.running:
            return []
        job = self.running.pop(0)
        return [JobResult(job.key, self.scripts[job.key].pop(0), "why")]

    def close(self) -> None: ...


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return read_plan(write_spec(tmp_path / "four.yaml", seeds={"training": 4}))


def dispatch(plan: Plan, root: Path, *scripts: list[str], retries: int = 2) -> tuple[Sweep, ScriptedPool]:
    sweep = Sweep(plan, root)
    pool = ScriptedPool({cell.key: script for cell, script in zip(plan.cells, scripts, strict=True)}, capacity=2)
    Dispatch(sweep, pool, list(plan.cells), retries, 7.0).run(StopRequest(), lambda sweep: None)
    assert not any(pool.scripts.values()), "every outcome was used"
    return sweep, pool


def tries(pool: ScriptedPool, plan: Plan, index: int) -> list[bool]:
    """For each attempt of a cell, whether it was alone."""
    return [job.alone for job in pool.given if job.key == plan.cells[index].key]


Case = tuple[list[str], list[bool], bool]
CASES: dict[str, Case] = {
    "done": (["finished"], [False], False),
    "diverged": (["diverged"], [False], False),
    "an error": (["failed", "failed", "failed"], [False, False, False], True),
    "an error that passes": (["failed", "finished"], [False, False], False),
    "lost once": (["lost", "finished"], [False, False], False),
    "lost to the end": (["lost", "lost", "lost"], [False, False, True], True),
    "memory": (["memory", "finished"], [False, True], False),
    "memory, alone too": (["memory", "memory"], [False, True], True),
    "memory after a loss": (["lost", "memory", "memory"], [False, False, True], True),
}


@pytest.mark.parametrize("kind", CASES)
def test_tries(kind: str, plan: Plan, tmp_path: Path) -> None:
    script, alone, failed = CASES[kind]
    sweep, pool = dispatch(plan, tmp_path, list(script), ["finished"], ["finished"], ["finished"])
    assert tries(pool, plan, 0) == alone
    assert sweep.failures == ({plan.cells[0].key: "why"} if failed else {})
    assert pool.most == 2 and pool.given[0].checkpoint_seconds == 7.0
    if True in alone:  # after all others
        assert pool.given[-1].key == plan.cells[0].key


def test_a_cell_that_others_write_waits_without_losing_tries(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "BUSY_SECONDS", 0.05)
    words = ["busy"] * 6 + ["finished"]
    sweep, pool = dispatch(plan, tmp_path, words, ["finished"], ["finished"], ["finished"], retries=0)
    assert len(tries(pool, plan, 0)) == 7 and not sweep.failures and sweep.attempts[plan.cells[0].key] == 1


def test_cells_are_spread_over_gpus_and_see_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    pool = LocalPool(capacity=4, devices=2)
    sent: list[dict[str, object]] = []
    monkeypatch.setattr(pool, "send", sent.append)
    jobs = [Job(str(number), {}, "", 1.0) for number in range(4)]
    for job in jobs:
        pool.start(job)
    assert all("environment" not in vars(job) for job in jobs)  # what is sent is a copy
    assert [message["environment"] for message in sent] == [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in "3535"]
    pool.running.pop("1")
    pool.start(Job("4", {}, "", 1.0))
    assert sent[-1]["environment"] == {"CUDA_VISIBLE_DEVICES": "5"}


@pytest.mark.fresh
def test_many_jobs_at_once_do_not_block(tmp_path: Path) -> None:
    """Jobs that fail at once fill the output pipe of the server while more jobs are written to it."""
    with LocalPool(capacity=60, devices=0) as pool:
        long: Callable[[int], Job] = lambda number: Job(f"{number:02500}", {"unknown": 1}, str(tmp_path), 1.0)  # noqa: E731
        for number in range(60):  # 150 kB in, and twice as much out: both pipes hold 64 kB
            pool.start(long(number))
        results: list[JobResult] = []
        while len(results) < 60:
            results += pool.wait(30)
    assert {one.outcome for one in results} == {"failed"} and "unknown" in results[0].reason


def test_a_job_that_is_stopped_at_its_start_ends_at_once(tmp_path: Path) -> None:
    """The fork server ignores SIGTERM; a child that has no handlers of its own yet must still hear it."""
    spec = {"training.steps": 10**6, "evaluation.steps": [0, 10**6]}
    plan = read_plan(write_spec(tmp_path / "long.yaml", set=spec, seeds={"training": 1}))
    cell = plan.cells[0]
    for _ in range(3):
        pool = LocalPool(1, devices=0)
        pool.start(Job(cell.key, to_mapping(cell.settings), str(tmp_path / "cell"), 30.0))
        begin = time.monotonic()
        pool.close()  # the job and the end of its input reach the server together
        assert time.monotonic() - begin < GRACE / 2
