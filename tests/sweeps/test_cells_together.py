"""Cells that one process trains together: which they are, what they give, and what happens when their process dies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_sweep import cell_contents, write_spec

from twoclocks.cli import main
from twoclocks.core.config import flat, to_mapping
from twoclocks.core.errors import SettingError
from twoclocks.runs import load_run, load_settings, run
from twoclocks.runs.session import Session
from twoclocks.runs.settings import RunSettings
from twoclocks.sweeps import EXECUTORS, Plan, Sweep, read_plan, run_sweep
from twoclocks.sweeps import dispatch as dispatching
from twoclocks.sweeps.dispatch import Dispatch
from twoclocks.sweeps.executors import Job, JobResult, Pool
from twoclocks.sweeps.local import LocalPool
from twoclocks.sweeps.together import FREE, SAME, Packing, groups_in_words, suggested_count
from twoclocks.training.stopping import StopRequest

LOCAL = EXECUTORS.create("local", workers=2)
TOGETHER = EXECUTORS.create("local", workers=2, together=4)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two sizes, three seeds, two rates."""
    grid = {"data.n": [4, 6], "training.learning_rate": [3e-3, 1e-3]}
    return read_plan(write_spec(tmp_path / "twelve.yaml", grid=grid, seeds={"training": 3}))


class RecordingPool(Pool):
    """Ends jobs at once: the cells of the first job of several have the given outcomes, all others finish."""

    def __init__(self, outcomes: list[str] | None = None, capacity: int = 1) -> None:
        self.jobs: list[list[str]] = []
        self.waiting: list[list[str]] = []
        self.outcomes, self._capacity = outcomes, capacity
        self.most = 0

    @property
    def capacity(self) -> int:
        return self._capacity

    def start(self, job: Job) -> None:
        self.jobs.append(job.keys)
        self.waiting.append(job.keys)
        self.most = max(self.most, len(self.waiting))

    def wait(self, seconds: float) -> list[JobResult]:
        keys = self.waiting.pop(0) if self.waiting else []
        outcomes = ["finished"] * len(keys)
        if self.outcomes and len(keys) > 1:
            outcomes, self.outcomes = self.outcomes, None
        return [JobResult(key, outcome, "why") for key, outcome in zip(keys, outcomes, strict=True)]

    def close(self) -> None: ...


def dispatch(plan: Plan, root: Path, pool: Pool, most: int, retries: int = 2) -> Sweep:
    sweep = Sweep(plan, root)
    Dispatch(sweep, pool, list(plan.cells), retries, 7.0, Packing(most)).run(StopRequest(), lambda sweep: None)
    return sweep


def test_jobs_have_cells_that_differ_in_seeds_and_rates_alone(plan: Plan, tmp_path: Path) -> None:
    pool = RecordingPool()
    dispatch(plan, tmp_path, pool, most=4)
    sizes = {cell.key: cell.settings.data.n for cell in plan.cells}
    assert [{sizes[key] for key in keys} for keys in pool.jobs] == [{4}, {4}, {6}, {6}]
    assert [len(keys) for keys in pool.jobs] == [4, 2, 4, 2]
    assert sorted(key for keys in pool.jobs for key in keys) == sorted(sizes)


def test_the_capacity_counts_processes(plan: Plan, tmp_path: Path) -> None:
    pool = RecordingPool(capacity=3)
    dispatch(plan, tmp_path, pool, most=2)
    assert pool.most == 3 and {len(keys) for keys in pool.jobs} == {2}


def test_no_place_of_the_pool_is_left_empty_by_large_jobs(tmp_path: Path) -> None:
    """Sixteen cells for eight places are two per job, though sixteen would be worth it."""
    sixteen = read_plan(write_spec(tmp_path / "sixteen.yaml", seeds={"training": 16}))
    pool = RecordingPool(capacity=8)
    dispatch(sixteen, tmp_path, pool, most=16)
    assert pool.most == 8 and [len(keys) for keys in pool.jobs] == [2] * 8


CASES: dict[str, tuple[list[str], int]] = {
    # what becomes of four cells, and how many jobs follow
    "all finish": (["finished"] * 4, 0),
    "the process is lost": (["lost"] * 4, 4),
    "memory": (["memory"] * 4, 4),
    "some fail": (["finished", "failed", "busy", "diverged"], 2),
}


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_cells_that_are_not_done_are_tried_again_one_by_one(
    case: str, retries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happened to the others is no attempt of a cell, so it has all of its attempts left."""
    monkeypatch.setattr(dispatching, "BUSY_SECONDS", 0.01)
    four = read_plan(write_spec(tmp_path / "four.yaml", seeds={"training": 4}))
    outcomes, more = CASES[case]
    pool = RecordingPool(list(outcomes))
    sweep = dispatch(four, tmp_path, pool, most=4, retries=retries)
    assert len(pool.jobs[0]) == 4 and [len(keys) for keys in pool.jobs[1:]] == [1] * more
    assert not sweep.failures and set(sweep.attempts.values()) == {1}


def test_a_cell_that_ended_before_its_process_died_is_finished(tmp_path: Path) -> None:
    four = read_plan(write_spec(tmp_path / "four.yaml", seeds={"training": 4}))
    (tmp_path / "out" / "cells").mkdir(parents=True)
    done = four.cells[1]
    run(done.settings, tmp_path / "out" / "cells" / done.key)
    pool = RecordingPool(["lost"] * 4)
    sweep = dispatch(four, tmp_path / "out", pool, most=4, retries=0)
    assert done.key not in [key for keys in pool.jobs[1:] for key in keys] and len(pool.jobs) == 4
    assert not sweep.failures and sweep.cell_status(done).state == "finished"


def test_a_packed_sweep_gives_the_bits_of_single_cells(plan: Plan, tmp_path: Path) -> None:
    alone, packed = (run_sweep(plan, tmp_path / name, how) for name, how in (("alone", LOCAL), ("packed", TOGETHER)))
    assert alone.counts() == packed.counts() == {"finished": 12} and set(packed.attempts.values()) == {1}
    assert cell_contents(tmp_path / "alone") == cell_contents(tmp_path / "packed")
    paths = sorted((tmp_path / "packed" / "cells").iterdir())
    counts = [load_run(path).status["attempts"][0].get("together", 1) for path in paths]
    assert len(counts) == 12 and 2 <= min(counts) <= max(counts) <= 4


def test_a_cell_that_fails_among_others_is_repeated_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second attempt goes on where the first failed; the others are finished meanwhile."""
    four = read_plan(write_spec(tmp_path / "four.yaml", seeds={"training": 4}))
    whole = run_sweep(four, tmp_path / "whole", LOCAL)
    original, failed = Session.on_step, tmp_path / "failed"
    victim = four.cells[2].key

    def failing(self: Session, step: int) -> None:
        if self.directory.path.name == victim and step == 25 and not failed.exists():
            failed.touch()
            raise RuntimeError("a fault")
        original(self, step)

    monkeypatch.setattr(Session, "on_step", failing)
    from twoclocks.sweeps.work import run_job

    class Here(RecordingPool):
        def start(self, job: Job) -> None:
            self.jobs.append(job.keys)
            result = run_job(json.loads(json.dumps(job.as_json())))
            members = result.get("members", {job.key: result})
            self.results = [JobResult(key, **members[key]) for key in job.keys]

        def wait(self, seconds: float) -> list[JobResult]:
            return self.results

    pool = Here()
    (tmp_path / "out" / "cells").mkdir(parents=True)
    sweep = dispatch(four, tmp_path / "out", pool, most=4)
    assert pool.jobs == [[cell.key for cell in four.cells], [victim]] and not sweep.failures
    assert cell_contents(tmp_path / "out") == cell_contents(tmp_path / "whole") and whole.counts() == sweep.counts()


def test_what_may_differ_and_how_many_are_worth_it(plan: Plan) -> None:
    first, *others = (cell.settings for cell in plan.cells)
    for packing in (Packing(), Packing(batched=True)):  # on the CPU
        alike = [one for one in others if packing.group(one) == packing.group(first)]
        assert len(alike) == 5 and {one.data.n for one in alike} == {first.data.n}
        assert packing.form(first) is None
    assert all(suggested_count(cell.settings) == 1 for cell in plan.cells)
    assert "training.learning_rate" in FREE and "training.batch" not in FREE


GPU_FREE = ["data.n", "rule.group", "evaluation.samples", "clocks.stop", "training.seed", "training.learning_rate"]
GPU_SAME = ["training.batch", "model.width", "training.device", "training.precision"]
VALUES = {
    "data.n": 5, "rule.group": 4, "evaluation.samples": 300, "clocks.stop": "memory", "training.seed": 9,
    "training.learning_rate": 0.5, "training.batch": 3, "model.width": 32, "training.device": "cuda:1",
    "training.precision": "tf32",
}  # fmt: skip


@pytest.mark.parametrize("name", [*GPU_FREE, *GPU_SAME])
def test_cells_side_by_side_on_a_gpu_may_have_other_rules_and_sizes(name: str) -> None:
    """A batched computation may not: it is one for all."""
    base = load_settings("demo-gpt", {"training.device": "cuda"})
    other = load_settings("demo-gpt", {"training.device": "cuda", name: VALUES[name]})
    assert base.digest() != other.digest()
    beside, batched = Packing(4), Packing(4, batched=True)
    assert (beside.group(base) == beside.group(other)) == (name in GPU_FREE)
    assert (batched.group(base) == batched.group(other)) == (name in FREE)
    assert beside.form(base) is None and batched.form(base) == "batched"
    flat_names = flat(to_mapping(base, whole=True))
    assert all(any(key.startswith(part) for key in flat_names) for part in SAME)  # each names something


def test_the_plan_says_which_cells_share_a_process(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups_in_words(plan.cells, Packing()) == groups_in_words(plan.cells, Packing(0)) == ""
    assert groups_in_words(plan.cells, Packing(4)) == "Trained together: up to 4 of 6 cells per process."

    class BySize(Packing):
        def most(self, settings: RunSettings) -> int:
            return 8 if settings.data.n == 4 else 1

    sized = groups_in_words(plan.cells, BySize())
    assert sized == "Trained together: up to 6 of 6 cells per process; 6 cells by themselves."
    spec = write_spec(tmp_path / "three.yaml", seeds={"training": 3})
    words = ["sweep", str(spec), "--out", str(tmp_path / "out"), "--plan"]
    assert main(words) == 0 and "Trained together" not in capsys.readouterr().out
    assert main([*words, "--executor.together", "2"]) == 0
    assert "Trained together: up to 2 of 3 cells per process." in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_it_is_a_setting_of_the_executor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path / "two.yaml", seeds={"training": 2})
    words = ["sweep", str(spec), "--out", str(tmp_path / "out"), "--executor.together"]
    assert main([*words, "65"]) == 2 and "executor.together: 65" in capsys.readouterr().err
    assert main([*words, "2", "--workers", "1"]) == 0
    statuses = [json.loads(path.read_text()) for path in (tmp_path / "out" / "cells").glob("*/status.json")]
    assert [one["attempts"][0]["together"] for one in statuses] == [2, 2]
    with pytest.raises(SettingError, match="together"):
        EXECUTORS.create("local", together=-1)


def test_each_cell_of_a_job_has_its_own_result(tmp_path: Path) -> None:
    """The first cell's folder holds another run; the others of its job finish."""
    three = read_plan(write_spec(tmp_path / "three.yaml", seeds={"training": 3}))
    paths = [tmp_path / cell.key for cell in three.cells]
    run(replace(three.cells[0].settings, data=replace(three.cells[0].settings.data, seed=9)), paths[0])
    first, *others = (
        {"key": cell.key, "settings": to_mapping(cell.settings), "out": str(path)}
        for cell, path in zip(three.cells, paths, strict=True)
    )
    with LocalPool(capacity=1, devices=0) as pool:
        pool.start(Job(**first, checkpoint_seconds=30.0, others=tuple(others)))
        while not (results := pool.wait(5)):
            pass
    assert {one.key: one.outcome for one in results} == dict(
        zip([cell.key for cell in three.cells], ["failed", "finished", "finished"], strict=True)
    )
    assert "holds a run with other settings" in results[0].reason
