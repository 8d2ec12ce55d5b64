"""Speed of the rules: rows per second of sampling and of validity, and the time of a million unique rows.

    python benchmarks/rules.py --out results/rules_speed.json

All rules have 36 entries; larger squares, which come from random walks, follow. Each training set is drawn in its own
process, to measure its peak memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from twoclocks.core.config import to_mapping
from twoclocks.core.seeds import numpy_stream
from twoclocks.data import training_set
from twoclocks.rules import RULES, Rule
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

ENTRIES, ROWS, MILLION = 36, 200_000, 1_000_000
OF_36 = {"rhm": {"depth": 2, "branching": 6, "vocabulary": 6, "synonyms": 6}}  # its published sizes have other lengths
LARGE = [
    ("latin", {"side": 9}, 1_000),
    ("sudoku", {"block_rows": 3, "block_cols": 3}, 1_000),
]


def best_of(action: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest repetition, with GPU synchronization."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure_rule(name: str, rule: Rule, rows: int, sets: bool) -> dict[str, Any]:
    """Speed of one rule; with ``sets`` also that of a large training set."""
    x = rule.sample(rows, seed=0)  # also fills the caches
    row: dict[str, Any] = {
        "rule": {"name": name, **to_mapping(rule)},
        "rows": rows,
        "sampled_per_second": round(rows / best_of(lambda: rule.draw(rows, numpy_stream(1, "benchmark")))),
        "checked_per_second": {"cpu": round(rows / best_of(lambda: rule.is_valid(x)))},
    }
    if torch.cuda.is_available():
        there = x.cuda()
        rule.is_valid(there)
        row["checked_per_second"]["cuda"] = round(rows / best_of(lambda: rule.is_valid(there)))
    if sets:
        row["training_set"] = json.loads(
            subprocess.run(
                [sys.executable, __file__, "--set", json.dumps(row["rule"])], check=True, capture_output=True, text=True
            ).stdout
        )
    return row


def measure_set(section: dict[str, Any]) -> dict[str, Any]:
    """Time and memory of a training set of a million unique rows, or half the support if that is less."""
    rule = RULES.create(section.pop("name"), **section)
    n = min(MILLION, rule.support() // 2)
    training_set(rule, 2, seed=1)
    used = memory("VmRSS")
    begin = time.perf_counter()
    training_set(rule, n, seed=0)
    seconds = time.perf_counter() - begin
    return {"rows": n, "seconds": round(seconds, 2), "peak_bytes_per_row": round((memory("VmHWM") - used) / n)}


def memory(field: str) -> int:
    """Memory of this process in bytes: now (VmRSS) or peak (VmHWM); getrusage would include the parent's."""
    (line,) = [line for line in Path("/proc/self/status").read_text().split("\n") if line.startswith(field)]
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.set is not None:
        print(json.dumps(measure_set(json.loads(arguments.set))))
        return
    runs = []
    for name, cls in RULES.items():
        rule = RULES.create(name, **OF_36.get(name, cls.examples[0]))
        assert rule.empty(1).numel() == ENTRIES, name
        runs.append(measure_rule(name, rule, ROWS, sets=True))
        print(json.dumps(runs[-1]), flush=True)
    for name, settings, rows in LARGE:
        runs.append(measure_rule(name, RULES.create(name, **settings), rows, sets=False))
        print(json.dumps(runs[-1]), flush=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    result = {
        "what": "rows per second of sampling (CPU) and of validity, and the time and memory of a million unique rows",
        "command": "python benchmarks/rules.py --out results/rules_speed.json",
        "commit": commit(),
        "versions": versions(),
        "machine": machine(device),
        "runs": runs,
    }
    if arguments.out is not None:
        write_json(arguments.out, result)


if __name__ == "__main__":
    main()
