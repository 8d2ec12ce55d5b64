"""How time and memory grow: cells planned, listed, tabled, verified and reported; empty cells; evaluations of one run.

python benchmarks/scale.py --out results/scale.json [--cells 100 1000 10000] [--evaluations 1000 10000 100000]

Every measurement is a process of its own, with the start of Python and the imports. The cells are copies of a small
run, with 16 evaluations and two checkpoints each, checksums included.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from sweeps import EMPTY, plan_of

from twoclocks.core.config import flat
from twoclocks.runs import Run, load_run, load_settings, run
from twoclocks.runs.columns import STEP
from twoclocks.store import RunDirectory, verify_tree
from twoclocks.store.artifacts import KINDS
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions
from twoclocks.sweeps import EXECUTORS, Sweep, read_plan, run_sweep
from twoclocks.sweeps.table import write_table
from twoclocks.testing.copies import SIZES, SMALL, without_sync, write_copies

RATES = [1e-3, 2e-3, 3e-3, 4e-3]
DATA_SEEDS = 5
# Runs a module (-m NAME …) or a program (-c CODE), and writes down the largest memory: that which the system reports at
# the end of a process counts its parent's too.
CHILD = """
import atexit, pathlib, re, runpy, sys
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: pathlib.Path("peak.txt").write_text(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]))
option, what, *words = sys.argv[1:]
sys.argv = [what, *words]
runpy.run_module(what, run_name="__main__") if option == "-m" else exec(what)
"""
Numbers = dict[str, float]


def write_spec(path: Path, cells: int) -> Path:
    """A sweep over sizes, learning rates and crossed seeds."""
    grid = {"data.n": list(SIZES), "training.learning_rate": RATES}
    seeds = {"training": cells // (len(SIZES) * len(RATES) * DATA_SEEDS), "data": DATA_SEEDS}
    spec = {"name": "scale", "base": "demo-gpt", "set": flat(SMALL), "grid": grid, "seeds": seeds}
    path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return path


def measured(words: list[str], folder: Path) -> Numbers:
    """Seconds, seconds of CPU time and largest memory of a command in a process of its own."""
    begin = time.perf_counter()
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", CHILD, *words], cwd=folder, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return {
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "megabytes": round(int((folder / "peak.txt").read_text()) / 1024),
    }


def table_of(spec: str, root: str) -> None:
    """Write the table of a finished sweep; called in a process of its own."""
    write_table(Sweep(read_plan(spec), Path(root)).rows(), Path(root))


def growth_of_cells(folder: Path, cells: int) -> dict[str, Any]:
    """What the commands about a sweep of so many finished cells take."""
    spec, root = write_spec(folder / f"cells{cells}.yaml", cells), folder / f"cells{cells}"
    plan = read_plan(spec)
    template = run(plan.cells[0].settings, folder / "template")
    write_copies(template, ((root / "cells" / cell.key, cell.settings) for cell in plan.cells))
    twoclocks, out = ["-m", "twoclocks"], ["--out", root.name]
    table = f"import scale; scale.table_of({spec.name!r}, {root.name!r})"
    found = {
        "plan": measured([*twoclocks, "sweep", spec.name, "--plan", "--out", "nothing"], folder),
        "list": measured([*twoclocks, "sweep", spec.name, "--status", *out], folder),
        "table": measured(["-c", table], folder),
        "verify": measured([*twoclocks, "verify", root.name], folder),
        "report": measured([*twoclocks, "report", root.name], folder),
    }
    pages = {end: (folder / f"{root.name}-report.{end}").stat().st_size for end in ("html", "png")}
    return {"cells": len(plan.cells), "commands": found, "page_bytes": pages}


def empty_cells(folder: Path, count: int) -> dict[str, Any]:
    """Empty cells per second through the local executor, without the start of its pool."""
    seen: list[tuple[float, int]] = []
    begin = time.perf_counter()

    def note(sweep: Sweep) -> None:
        seen.append((time.perf_counter() - begin, sweep.counts()["finished"]))

    run_sweep(plan_of(count, **EMPTY), folder / "empty", EXECUTORS.create("local"), note)
    (first, few), (last, many) = next(one for one in seen if one[1]), seen[-2]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cells": count,
        "seconds": round(time.perf_counter() - begin, 2),
        "cells_per_second": round((many - few) / (last - first), 1),
        "cpu_seconds_per_cell": round((used.ru_utime + used.ru_stime) / count, 3),
    }


def write_long_run(path: str, template: str, evaluations: int) -> None:
    """Append so many evaluations to a run, one by one; called in a process of its own."""
    source = load_run(template)
    rows = [{k: v for k, v in row.items() if k not in KINDS} for row in source.directory.journal.rows()]
    directory = RunDirectory.create(Path(path), source.manifest)
    with without_sync():
        for step in range(1, evaluations + 1):
            directory.append_metrics({**rows[step * len(rows) // (evaluations + 1)], STEP: step})
            directory.timings.append({"step": step, "seconds": float(step), "evaluation_seconds": 1.0})
        directory.write_checkpoint(evaluations, source.directory.read_checkpoint().tensors)


def resume_long_run(path: str) -> None:
    """What a run does to its directory before it continues; called in a process of its own."""
    directory = RunDirectory(Path(path))
    directory.rewind(directory.last_good())
    directory.set_status("running")


def read_long_run(path: str) -> None:
    """All columns and all clocks; called in a process of its own."""
    run = Run(Path(path))
    assert len(run.metrics()["step"]) and run.clocks().changes


def growth_of_evaluations(folder: Path, evaluations: int) -> dict[str, Any]:
    """What a run of so many evaluations takes to be written, resumed, read and verified."""
    settings = load_settings("demo-gpt", {**SMALL, "data.n": SIZES[0]})
    path, template = str(folder / f"long{evaluations}"), str(run(settings, folder / "one").path)

    def call(words: str) -> Numbers:
        return measured(["-c", f"import scale; scale.{words}"], folder)

    found = {
        "append": call(f"write_long_run({path!r}, {template!r}, {evaluations})"),
        "resume": call(f"resume_long_run({path!r})"),
        "read": call(f"read_long_run({path!r})"),
    }
    assert all(one.intact for one in verify_tree(Path(path)))
    return {"evaluations": evaluations, "work": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--evaluations", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--empty", type=int, default=200)
    arguments = parser.parse_args()
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), here]))
    result: dict[str, Any] = {
        "command": "python benchmarks/scale.py --out results/scale.json",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu") | {"cores": len(os.sched_getaffinity(0))},
        "cells": [],
        "evaluations": [],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result["empty"] = empty_cells(folder, arguments.empty)
        print(result["empty"], flush=True)
        for count in arguments.evaluations:
            result["evaluations"].append(growth_of_evaluations(folder, count))
            print(result["evaluations"][-1], flush=True)
        for count in arguments.cells:
            result["cells"].append(growth_of_cells(folder, count))
            print(result["cells"][-1], flush=True)
            write_json(arguments.out.absolute(), result)


if __name__ == "__main__":
    main()
