"""Speed of the exact nearest-neighbour search of the monitor: 512 samples among 50,000 rows of 3,072 entries.

    OMP_NUM_THREADS=2 python benchmarks/nearest.py --out results/monitor_nearest.json

Beside it: plain matrix products of the same size, the preparation of the rows, the search for near-duplicates among
10,000 rows. Wall time is the best of several repetitions; where other processes use the cores, read the CPU time on one
thread, which they do not change as much. The neighbours of a few samples are compared with brute force in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twoclocks.monitor.near_duplicates import near_duplicates
from twoclocks.monitor.nearest import Nearest, Neighbours
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

Array = np.ndarray[Any, Any]
SAMPLES, ROWS, ENTRIES, REPEATS, CHECKED = 512, 50_000, 3_072, 7, 4
DUPLICATES = 10_000  # rows among which near-duplicates are searched


def timed(action: Callable[[], Any], repeats: int, threads: int = 2) -> dict[str, float]:
    """Best wall time and best CPU time (all threads together) of several repetitions."""
    torch.set_num_threads(threads)
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    torch.set_num_threads(2)
    wall, cpu = (round(min(times), 3) for times in zip(*found, strict=True))
    return {"wall_seconds": wall, "cpu_seconds": cpu}


def gaussian(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((n, ENTRIES), dtype=np.float32)


def images(n: int, seed: int) -> Array:
    """Images of 3 × 32 × 32 with a spectrum that falls with the square of the frequency, as natural images have."""
    x = (np.arange(32) + 0.5) / 32
    waves = np.cos(np.pi * np.arange(32)[:, None] * x) / (1 + np.arange(32)[:, None])  # (frequency, place)
    noise = np.random.default_rng(seed).standard_normal((n, 3, 32, 32), dtype=np.float32)
    first = np.einsum("ncuv,ux->ncxv", noise, waves.astype(np.float32), optimize=True)
    return np.einsum("ncxv,vy->ncxy", first, waves.astype(np.float32), optimize=True).reshape(n, ENTRIES)


def check(found: Neighbours, samples: Array, rows: Array) -> None:
    """Assert that the neighbours of a few samples are those of brute force in float64."""
    for i in range(0, len(samples), len(samples) // CHECKED):
        pieces = np.array_split(rows, 50)
        exact = np.concatenate([np.linalg.norm(piece.astype(np.float64) - samples[i], axis=1) for piece in pieces])
        order = np.argsort(exact, kind="stable")[:2]
        assert (found.rows[i] == order).all() and np.allclose(found.distances[i], exact[order], rtol=1e-13, atol=0)


def measure(name: str, draw: Callable[[int, int], Array]) -> dict[str, Any]:
    """Time of the preparation and of the search; half of the samples are noisy copies of rows."""
    rows, samples = draw(ROWS, 0), draw(SAMPLES, 1)
    samples[::2] = rows[: SAMPLES // 2] + 0.1 * rows.std() * gaussian(SAMPLES // 2, 2)
    kept: list[Nearest] = []
    preparation = timed(lambda: kept.append(Nearest(rows)), 1)
    (nearest,) = kept
    found = nearest.search(samples)
    check(found, samples, rows)
    mirrored = Nearest(rows.reshape(-1, 3, 32, 32), variants=[lambda x: x[..., ::-1]])
    flops = 2 * SAMPLES * ROWS * ENTRIES
    products = {}
    for kind in (torch.float32, torch.bfloat16):
        left, right = (torch.from_numpy(x).to(kind) for x in (samples, rows))
        products[str(kind)] = timed(lambda a=left, b=right: a @ b.T, REPEATS)  # type: ignore[misc]
        products[str(kind)]["gflops_per_second"] = round(flops / products[str(kind)]["wall_seconds"] / 1e9, 1)
    return {
        "rows": name,
        "preparation": {**preparation, "bytes": nearest.prepared_bytes},
        "search": timed(lambda: nearest.search(samples), REPEATS),
        "search_one_thread": timed(lambda: nearest.search(samples), 3, threads=1),
        "search_with_mirror_images": timed(lambda: mirrored.search(samples.reshape(-1, 3, 32, 32)), 1),
        "samples_in_second_pass": found.second_pass,
        "plain_products": products,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    result: dict[str, Any] = {
        "what": "exact search of the two nearest rows, with the load average of the machine before and after",
        "command": "OMP_NUM_THREADS=2 python benchmarks/nearest.py --out results/monitor_nearest.json",
        "commit": commit(),
        "versions": versions(),
        "machine": machine("cpu"),
        "sizes": {"samples": SAMPLES, "rows": ROWS, "entries": ENTRIES, "near_duplicates": DUPLICATES},
        "load_before": os.getloadavg()[0],
        "runs": [],
    }
    for name, draw in (("gaussian", gaussian), ("images", images)):
        result["runs"].append(measure(name, draw))
        print(json.dumps(result["runs"][-1]), flush=True)
    rows = images(DUPLICATES // 2, 3)
    twins = np.concatenate([rows, rows + 0.1 * rows.std() * gaussian(len(rows), 4)])
    groups: list[Array] = []
    result["near_duplicates"] = timed(lambda: groups.append(near_duplicates(twins)), 1)
    result["near_duplicates"]["groups"] = len(set(groups[0].tolist()))
    result["load_after"] = os.getloadavg()[0]
    print(json.dumps(result["near_duplicates"]), flush=True)
    if arguments.out is not None:
        write_json(arguments.out, result)


if __name__ == "__main__":
    main()
