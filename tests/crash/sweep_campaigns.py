"""Campaigns against sweeps: coordinators and workers killed at random, every cell exactly once all the same."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from campaigns import Tally
from subjects import SMALL

from twoclocks.store.files import digest
from twoclocks.store.verify import verify_run
from twoclocks.sweeps import Plan, read_plan, run_sweep
from twoclocks.sweeps.executors import JobResult
from twoclocks.sweeps.local import Local, LocalPool


def write_spec(path: Path, cells: int, steps: int) -> Path:
    """Cells of a few steps each, different only in their seeds."""
    schedule = {"training.steps": steps, "evaluation.steps": [0, steps]}
    spec = {"base": "demo-gpt", "set": {**SMALL, **schedule}, "seeds": {"training": cells}}
    path.write_text(yaml.safe_dump(spec))
    return path


def contents(root: Path, plan: Plan) -> dict[str, str]:
    """SHA-256 of the rows and of the last checkpoint of every cell."""
    found = {}
    for cell in plan.cells:
        path = root / "cells" / cell.key
        last = path / "checkpoints" / f"step-{cell.settings.training.steps:09d}.safetensors"
        found[cell.key] = digest((path / "metrics.jsonl").read_bytes()) + digest(last.read_bytes())
    return found


class KillingPool(LocalPool):
    """Kills some of the processes that run cells, each at a random time."""

    def __init__(self, capacity: int, part: float, seed: int) -> None:
        super().__init__(capacity, devices=0)
        self.part, self.generator = part, random.Random(seed)
        self.kill_times: dict[int, float] = {}
        self.seen: set[tuple[str, int]] = set()  # a process may run several cells
        self.kills, self.finished = 0, Counter[str]()

    def wait(self, seconds: float) -> list[JobResult]:
        results = super().wait(0.01)
        for cell, process in set(self.processes.items()) - self.seen:
            self.seen.add((cell, process))
            if self.generator.random() < self.part:
                self.kill_times[process] = time.monotonic() + self.generator.uniform(0, 0.1)
        for process, when in list(self.kill_times.items()):
            if when < time.monotonic():
                del self.kill_times[process]
                if process in self.processes.values():
                    os.kill(process, signal.SIGKILL)
                    self.kills += 1
        self.finished.update(one.key for one in results if one.outcome == "finished")
        return results


@dataclass(frozen=True, kw_only=True)
class Killing(Local):
    """Not registered: an executor for this campaign alone."""

    def open(self, device: str, root: Path) -> KillingPool:
        POOLS.append(KillingPool(self.workers, part=0.25, seed=self.workers))
        return POOLS[-1]


POOLS: list[KillingPool] = []


def workers_killed(folder: Path, workers: int, cells: int) -> Tally:
    """A quarter of the worker processes die by kill -9; each cell is finished exactly once, with the same bytes."""
    plan = read_plan(write_spec(folder / "tiny.yaml", cells, steps=1))
    done = run_sweep(plan, folder / "killed", Killing(workers=workers), retries=8, checkpoint_seconds=0)
    pool = POOLS.pop()
    run_sweep(plan, folder / "whole", Local(workers=2), checkpoint_seconds=0)
    expected, found = contents(folder / "whole", plan), contents(folder / "killed", plan)
    tally = Tally(f"{workers} workers × {cells} cells, {pool.kills} workers killed", tried=cells)
    for cell in plan.cells:
        once = pool.finished[cell.key] == 1 and done.cell_status(cell).state == "finished"
        same = found[cell.key] == expected[cell.key] and verify_run(folder / "killed" / "cells" / cell.key).intact
        tally.equal += once and same
        tally.wrong += not (once and same)
    assert pool.kills >= max(1, cells // 32), "too few were killed to prove anything"
    assert len(done.rows()) == cells
    return tally


def start_command(words: list[str]) -> subprocess.Popen[bytes]:
    """The command in a fresh process."""
    return subprocess.Popen([sys.executable, "-m", "twoclocks", *words], stdout=-3, stderr=-3)


def sweeps_killed(
    folder: Path,
    kills: int,
    cells: int = 6,
    steps: int = 40,
    start: Callable[[list[str]], Any] = start_command,
    import_seconds: float = 1.5,
) -> Tally:
    """kill -9 of the coordinator at random times, then the same command again until it is done."""
    generator = random.Random(0)
    spec = write_spec(folder / "mid.yaml", cells, steps)
    plan = read_plan(spec)
    begin = time.perf_counter()
    run_sweep(plan, folder / "whole", Local(workers=2), checkpoint_seconds=0)
    longest = time.perf_counter() - begin
    expected = contents(folder / "whole", plan)
    tally = Tally("kill of a sweep at a random time")
    while tally.tried < kills:
        out = folder / f"swept-{tally.tried}"
        words = ["sweep", str(spec), "--out", str(out), "--workers", "2", "--checkpoint-seconds", "0"]
        died = 0
        for _ in range(3):
            process = start(words)
            time.sleep(import_seconds + generator.uniform(0, longest))
            process.kill()
            died += process.wait() == -9
        done = run_sweep(plan, out, Local(workers=2), checkpoint_seconds=0)
        intact = all(verify_run(out / "cells" / cell.key).intact for cell in plan.cells)
        good = contents(out, plan) == expected and intact and done.counts() == {"finished": len(plan.cells)}
        tally.tried += died
        tally.equal += died if good else 0
        tally.wrong += not good
        shutil.rmtree(out)
    return tally
