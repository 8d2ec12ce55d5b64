"""Cells per hour of small networks: one process per cell, and several cells trained together in one process.

    python benchmarks/cells_together.py --out results/cells_together.json

Every workload is a sweep over seeds, with all that a cell costs: its start, training, evaluations, files. What is
compared is measured one after another in the same run: the present default, four processes per GPU; cells of one
process side by side in CUDA streams; cells as one batched computation. Rows that are in --out already are not measured
again, so an interrupted benchmark goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions
from twoclocks.sweeps import EXECUTORS, run_sweep
from twoclocks.sweeps.grid import SweepSettings, make_plan
from twoclocks.sweeps.together import suggested_count

SHARED = {"evaluation.keep_weights": 0, "evaluation.keep_samples": 0}
WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "DiT, demo": ("demo", {}),
    "GPT, demo": ("demo-gpt", {}),
    "GPT-nano": ("p1-gpt-nano", {"data.n": 512, "training.steps": 3000, "evaluation.evaluations": 20}),
    "DiT-nano": ("p1-dit-nano", {"data.n": 512, "training.steps": 3000, "evaluation.evaluations": 20}),
    "GPT-mini": ("p1-gpt-mini", {"data.n": 512, "training.steps": 3000, "evaluation.evaluations": 20}),
}


@dataclass(frozen=True)
class Case:
    """``places`` processes at a time, ``together`` cells in each, side by side or batched."""

    cells: int
    places: int
    together: int
    batched: bool = False


def cells_per_hour(label: str, device: str, case: Case, folder: Path) -> dict[str, Any]:
    """Run one sweep."""
    preset, change = WORKLOADS[label]
    shared = {**SHARED, **change, "training.device": device}
    plan = make_plan(SweepSettings(name="speed", base=preset, set=shared, seeds={"training": case.cells}))
    executor = EXECUTORS.create("local", workers=case.places, together=case.together, batched=case.batched)
    begin = time.perf_counter()
    done = run_sweep(plan, folder, executor)
    seconds = time.perf_counter() - begin
    assert done.counts() == {"finished": case.cells}, done.status()
    assert set(done.attempts.values()) == {1}, "a cell was repeated: its process was lost, or memory was too small"
    return {
        "suggested": suggested_count(plan.cells[0].settings),
        "seconds": round(seconds, 1),
        "cells_per_hour": round(3600 * case.cells / seconds),
    }


def cases(asked: argparse.Namespace) -> list[Case]:
    """The present default first, then as many cells in one process, and in several."""
    forms = [False, True] if asked.device == "cuda" else [False]
    counts = [(places, count) for count in asked.counts for places in asked.processes]
    more = [Case(places * count, places, count, batched) for places, count in counts for batched in forms]
    return [Case(asked.alone, 4, 1), *more]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--work", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--alone", type=int, default=8, help="cells of the sweeps with one cell per process")
    parser.add_argument("--counts", type=int, nargs="+", default=[16], help="cells per process to try")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4], help="processes with several cells each")
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(asked.out.read_text())["rows"] if asked.out.exists() else []
    for label in asked.work:
        for case in cases(asked):
            what = {"work": label, **asdict(case)}
            if any(what.items() <= row.items() for row in rows):
                continue
            with tempfile.TemporaryDirectory() as name:
                row = {**what, **cells_per_hour(label, asked.device, case, Path(name))}
            first = next(one for one in [*rows, row] if one["work"] == label)
            rows.append({**row, "over_alone": round(row["cells_per_hour"] / first["cells_per_hour"], 2)})
            print(rows[-1], flush=True)
            origin = {"commit": commit(), "versions": versions(), "machine": machine(asked.device)}
            command = f"python benchmarks/cells_together.py --out {asked.out} --device {asked.device}"
            write_json(asked.out, {"command": command, **origin, "rows": rows})


if __name__ == "__main__":
    main()
