"""Training steps on one CPU core, with memory that stays in the process and as glibc's allocator does by default.

    python benchmarks/cpu_memory.py --out results/cpu_memory.json

Each measurement is a process of its own, because the setting cannot be taken back; both ways take turns.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from twoclocks.runs import assembly, load_settings
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

PRESETS = ("demo", "demo-gpt", "images-small", "p2-rhm-small", "text-small")
WARM_UP = 20  # steps
KEPT, DEFAULT = "kept", "default"


def measure(preset: str, way: str, seconds: float) -> dict[str, float]:
    """Milliseconds and page faults per step, in this process."""
    if way == DEFAULT:
        assembly.keep_memory = lambda: False  # type: ignore[assignment]
    experiment = assembly.Experiment(load_settings(preset, {"training.threads": 1}))
    step = experiment.make_step()
    for number in range(1, WARM_UP):
        step(number)
    times = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    while sum(times) < seconds:
        start = time.perf_counter()
        step(WARM_UP + len(times))
        times.append(time.perf_counter() - start)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return {"milliseconds": 1000 * statistics.median(times), "faults": faults / len(times)}


def in_process(preset: str, way: str, seconds: float) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", preset, way, "--seconds", str(seconds)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(found.stdout)
    return result


def row(preset: str, repeats: int, seconds: float) -> dict[str, Any]:
    """Medians of both ways, and the ratio of each pair of neighbouring measurements."""
    pairs = [{way: in_process(preset, way, seconds) for way in (KEPT, DEFAULT)} for _ in range(repeats)]
    medians = {
        f"{way}_{name}": statistics.median(pair[way][name] for pair in pairs)
        for way in (KEPT, DEFAULT)
        for name in ("milliseconds", "faults")
    }
    ratios = [pair[DEFAULT]["milliseconds"] / pair[KEPT]["milliseconds"] for pair in pairs]
    return {"preset": preset, **medians, "speedups": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="time of each measurement")
    parser.add_argument("--measure", nargs=2, metavar=("PRESET", "WAY"), help="one measurement in this process")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.measure:
        print(json.dumps(measure(*asked.measure, asked.seconds)))
        return
    if asked.out is None:
        raise SystemExit("--out: give the file of the results, such as results/cpu_memory.json")
    rows = [row(preset, asked.repeats, asked.seconds) for preset in PRESETS]
    for one in rows:
        print(one["preset"], [round(ratio, 2) for ratio in one["speedups"]])
    origin = {"commit": commit(), "versions": versions(), "machine": machine("cpu")}
    command = f"python benchmarks/cpu_memory.py --out {asked.out} --repeats {asked.repeats} --seconds {asked.seconds:g}"
    write_json(asked.out, {"command": command, **origin, "rows": rows})


if __name__ == "__main__":
    main()
