"""Overhead of sweeps: time of an empty cell, of planning a thousand cells, and of parallel cells on one GPU.

python benchmarks/sweeps.py --out results/sweeps_speed.json [--device cuda]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from twoclocks.core.config import to_mapping
from twoclocks.runs import load_run
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions
from twoclocks.sweeps import EXECUTORS, Plan, Sweep, run_sweep
from twoclocks.sweeps.executors import Job
from twoclocks.sweeps.grid import SweepSettings, make_plan
from twoclocks.sweeps.local import LocalPool

EMPTY = {  # one step, one evaluation, the fewest samples that the clocks allow
    "rule.length": 8,
    "rule.group": 2,
    "data.n": 4,
    "training.steps": 1,
    "training.batch": 2,
    "model.width": 8,
    "model.depth": 1,
    "model.heads": 1,
    "evaluation.samples": 100,
    "evaluation.steps": [1],
    "evaluation.loss_rows": 1,
    "clocks.memory_threshold": 0.3,
    "clocks.above_chance": True,
    "clocks.sustain": 1,
}


def plan_of(cells: int, base: str = "demo-gpt", **shared: Any) -> Plan:
    return make_plan(SweepSettings(name="speed", base=base, set=shared, seeds={"training": cells}))


def empty_cells(folder: Path, count: int = 30) -> dict[str, Any]:
    """Seconds from the start of a job to its result, one job after another, in a pool that is already running."""
    taken = []
    with LocalPool(capacity=1, devices=0) as pool:
        for number, cell in enumerate(plan_of(count + 1, **EMPTY).cells):
            begin = time.perf_counter()
            pool.start(Job(cell.key, to_mapping(cell.settings), str(folder / cell.key), 30.0))
            while not (results := pool.wait(10)):
                pass
            assert results[0].outcome == "finished", results
            if number:  # the first one includes the start of the pool
                taken.append(time.perf_counter() - begin)
    own = [load_run(path).status["seconds"] for path in folder.iterdir()]
    return {
        "cells": count,
        "median_seconds": round(statistics.median(taken), 4),
        "largest_seconds": round(max(taken), 4),
        "of_which_training_and_storing": round(statistics.median(own), 4),
    }


def planning(folder: Path, cells: int = 1000) -> dict[str, Any]:
    """Seconds to plan and to list a sweep."""
    begin = time.perf_counter()
    plan = plan_of(cells)
    planned = time.perf_counter()
    lines = Sweep(plan, folder).lines()
    assert len(lines) == cells
    return {
        "cells": cells,
        "plan_seconds": round(planned - begin, 3),
        "list_seconds": round(time.perf_counter() - planned, 3),
    }


def side_by_side(folder: Path, places: int, cells: int) -> dict[str, Any]:
    """Cells per hour of small diffusion transformers, with ``places`` of them at a time on one GPU."""
    shared = {
        "training.device": "cuda",
        "training.steps": 1500,
        "evaluation.evaluations": 6,
        "evaluation.samples": 1024,
    }
    plan = plan_of(cells, "p1-dit-mini", **shared)
    begin = time.perf_counter()
    done = run_sweep(plan, folder, EXECUTORS.create("local", workers=places))
    seconds = time.perf_counter() - begin
    assert done.counts() == {"finished": cells}, done.status()
    return {
        "at_a_time": places,
        "cells": cells,
        "seconds": round(seconds, 1),
        "cells_an_hour": round(3600 * cells / seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "command": f"python benchmarks/sweeps.py --out results/sweeps_speed.json --device {arguments.device}",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(arguments.device),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result["empty_cell"] = empty_cells(folder / "empty")
        result["planning"] = planning(folder / "planned")
        print(result["empty_cell"], result["planning"], flush=True)
        if arguments.device == "cuda":
            result["side_by_side"] = []
            for places, cells in ((1, 2), (2, 4), (4, 8)):
                result["side_by_side"].append(side_by_side(folder / str(places), places, cells))
                print(result["side_by_side"][-1], flush=True)
                write_json(arguments.out, result)
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
