"""A sweep of real cells whose workers die, whose coordinator dies, and whose cells are damaged or removed."""

from __future__ import annotations

import csv
import logging
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dying_disk import Crash, dying, machine_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from small_sweep import write_spec

from twoclocks.store import files
from twoclocks.sweeps import Plan, Sweep, dispatch, read_plan, run_sweep
from twoclocks.sweeps.executors import Executor, Job, JobResult, Pool
from twoclocks.sweeps.work import run_job

TINY = {
    "training.steps": 2,
    "evaluation.steps": [0, 2],
    "evaluation.samples": 40,
    "evaluation.loss_rows": 4,
    "model.width": 8,
    "model.heads": 1,
    "training.threads": 1,
}
VARYING = {"seconds", "path", "commit"}  # columns that are not a function of the settings


class CoordinatorDies(BaseException):
    """The process that runs the sweep is killed."""


class InlinePool(Pool):
    """Runs each job in this process when its result is asked for; some die at a disk call."""

    def __init__(self, deaths: list[int]) -> None:
        self.deaths, self.running = deaths, list[Job]()
        self.results: list[JobResult] = []

    @property
    def capacity(self) -> int:
        return 2

    def start(self, job: Job) -> None:
        assert job.key not in {one.key for one in self.running}, "one job per cell at a time"
        self.running.append(job)

    def wait(self, seconds: float) -> list[JobResult]:
        if not self.running:
            return []
        job = self.running.pop(0)
        at = self.deaths.pop(0) if self.deaths else 0
        try:
            with dying(at or 10**9, "kill"):
                found = JobResult(job.key, **run_job(job.as_json()))
        except Crash:
            found = JobResult(job.key, "lost", "its process was killed")
        self.results.append(found)
        return [found]

    def close(self) -> None: ...


class Inline(Executor):
    """Not registered: it is for this machine alone."""

    def __init__(self, deaths: list[int]) -> None:
        object.__setattr__(self, "pool", InlinePool(deaths))

    def open(self, device: str, root: Path) -> Pool:
        pool: InlinePool = vars(self)["pool"]
        return pool


def table(root: Path) -> dict[str, dict[str, str]]:
    with (root / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    found = {row["cell"]: {name: value for name, value in row.items() if name not in VARYING} for row in rows}
    assert len(found) == len(rows), "one row per cell"
    return found


def different(row: dict[str, str], expected: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (row[name], expected[name]) for name in expected if row[name] != expected[name]}


@cache
def undisturbed() -> tuple[Plan, Path]:
    """The plan, and a folder with its cells and the one cell of another plan, that nothing happened to."""
    root = Path(tempfile.mkdtemp(prefix="sweep-machine-"))
    plan = read_plan(write_spec(root / "three.yaml", set=TINY, seeds={"training": 3}))
    other = read_plan(write_spec(root / "other.yaml", set={**TINY, "data.n": 5}, seeds={"training": 1}))
    run_sweep(other, root / "other", Inline([]))
    run_sweep(plan, root / "sweep", Inline([]))
    return plan, root


class SweepMachine(RuleBasedStateMachine):
    @initialize()
    def create(self) -> None:
        self.plan, self.reference = undisturbed()
        self.root = Path(tempfile.mkdtemp()) / "sweep"
        shutil.copytree(self.reference / "other", self.root)  # this folder holds a cell of another plan already
        self.others = {path: path.read_bytes() for path in (self.root / "cells").rglob("*") if path.is_file()}
        self.ends: dict[str, bytes] = {}  # the last status of each cell that finished

    def teardown(self) -> None:
        self.run([], 0)
        for failed in [cell for cell in self.plan.cells if self.needs(cell.key)]:  # as its reason says
            shutil.rmtree(self.cell(failed.key))
        sweep = self.run([], 0)
        assert sweep is not None and not sweep.failures
        assert {found.state for found in sweep.cell_statuses().values()} == {"finished"}
        assert table(self.root) == table(self.reference / "sweep")
        for cell in self.plan.cells:
            assert self.metrics(self.root, cell.key) == self.metrics(self.reference / "sweep", cell.key)
        self.other_cells_are_untouched()
        shutil.rmtree(self.root.parent)

    def cell(self, key: str) -> Path:
        return self.root / "cells" / key

    def metrics(self, root: Path, key: str) -> bytes:
        path = root / "cells" / key / "metrics.jsonl"
        return path.read_bytes() if path.exists() else b""

    def needs(self, key: str) -> bool:
        """Whether a cell must run: it never finished, or its end, its rows or its manifest are not what was written."""
        status, manifest = (self.cell(key) / name for name in ("status.json", "manifest.json"))
        if key not in self.ends or not status.exists() or not manifest.exists():
            return True
        ended = status.read_bytes() + manifest.read_bytes() == self.ends[key]
        return not ended or self.metrics(self.root, key) != self.metrics(self.reference / "sweep", key)

    def run(self, deaths: list[int], reports: int) -> Sweep | None:
        """The sweep; at one of its reports the coordinator dies (0: never)."""
        needed = {cell.key for cell in self.plan.cells if self.needs(cell.key)}
        executor, told = Inline(deaths), list[Any]()
        pool: InlinePool = vars(executor)["pool"]

        def report(sweep: Sweep) -> None:
            told.append(sweep.counts())
            if len(told) == reports:
                raise CoordinatorDies

        sweep = None
        try:
            sweep = run_sweep(self.plan, self.root, executor, report, retries=2, checkpoint_seconds=0)
        except CoordinatorDies:
            assert len(told) == reports
        finished = [one.key for one in pool.results if one.outcome == "finished"]
        assert len(set(finished)) == len(finished), "a cell that finished ran again"
        assert {one.key for one in pool.results} <= needed, "a cell ran that was done"
        for key in finished:
            assert self.metrics(self.root, key) == self.metrics(self.reference / "sweep", key)
            self.ends[key] = (self.cell(key) / "status.json").read_bytes() + (
                self.cell(key) / "manifest.json"
            ).read_bytes()
        if sweep is not None:
            assert needed == {*finished, *sweep.failures}, "each cell finished, or its failure was reported"
            rows, expected = table(self.root), table(self.reference / "sweep")
            assert list(rows) == [cell.key for cell in self.plan.cells]
            assert not [
                different(rows[key], expected[key])
                for key in rows
                if rows[key] != expected[key] and key not in sweep.failures
            ]
            assert all(rows[key]["state"] == "failed" and rows[key]["reason"] for key in sweep.failures)
        return sweep

    @rule(deaths=st.lists(st.integers(0, 60), max_size=8), reports=st.sampled_from([0, 0, 1, 2, 4]))
    def start(self, deaths: list[int], reports: int) -> None:
        self.run(deaths, reports)

    @rule(which=st.integers(0, 2), seed=st.integers(0, 1 << 20))
    def damage(self, which: int, seed: int) -> None:
        """A file of one of the cells is changed, cut or removed, or the whole cell is."""
        generator, cell = random.Random(seed), self.cell(self.plan.cells[which].key)
        there = [path for path in sorted(cell.rglob("*")) if path.is_file() and path.stat().st_size]
        if not there:
            return
        names = ("metrics.jsonl", "status.json", "manifest.json")  # half of the time one of those that count
        path = generator.choice([one for one in there if one.name in names or generator.random() < 0.3] or there)
        content = bytearray(path.read_bytes())
        how = generator.choice(["flip", "cut", "remove", "remove the cell"])
        if how == "flip":
            content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
            path.write_bytes(content)
        elif how == "cut":
            path.write_bytes(content[: generator.randrange(len(content))])
        elif how == "remove":
            path.unlink()
        else:
            shutil.rmtree(cell)

    @invariant()
    def the_status_is_true(self) -> None:
        """Read at any time, by any process: a cell that must run is never called finished, and the other way round."""
        for key, found in Sweep(self.plan, self.root).cell_statuses().items():
            if not self.needs(key):
                assert found.state == "finished", (key, found)
            elif not (self.cell(key) / "status.json").exists():
                assert found.state != "finished", (key, found)

    @invariant()
    def other_cells_are_untouched(self) -> None:
        key = next(iter(self.others)).relative_to(self.root / "cells").parts[0]
        found = {path: path.read_bytes() for path in self.cell(key).rglob("*") if path.is_file()}
        assert found == self.others


def test_a_sweep(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.CRITICAL, "twoclocks")
    monkeypatch.setattr(files.disk, "sync", lambda descriptor: None)
    monkeypatch.setattr(dispatch, "POLL_SECONDS", -1.0)  # report after every result
    SweepMachine.TestCase.settings = machine_settings(6, 8)
    _, reference = undisturbed()
    try:
        SweepMachine.TestCase("runTest").runTest()
    finally:
        shutil.rmtree(reference)
        undisturbed.cache_clear()
