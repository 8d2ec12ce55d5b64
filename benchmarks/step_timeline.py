"""What the GPU does in a training step, kernel by kernel: when each begins, how long it takes, beside which others.

    python benchmarks/step_timeline.py --out timelines                # needs a GPU
    python benchmarks/step_timeline.py --out timelines --work "GPT-mini, batch 128"

A kernel that takes longer here than by itself shares multiprocessors with others, or waits for them. A stream that
stands still waits for another one, or for the memory that a library clears before some of its products.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from twoclocks.bench.timing import Work, rate, wait
from twoclocks.bench.workloads import WORKLOADS, seeded
from twoclocks.store.files import make_folder, write_json
from twoclocks.store.provenance import commit, machine, versions

KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
STEPS = 3  # of which the last is shown


@dataclass(frozen=True)
class Kernel:
    """One piece of work; times are in microseconds."""

    name: str
    begin: float
    duration: float
    stream: int
    programs: int | None = None  # of its grid
    registers: int | None = None  # of a thread
    shared_memory: int | None = None  # bytes of a program

    @property
    def end(self) -> float:
        return self.begin + self.duration


def timeline(step: Work) -> list[Kernel]:
    """The last of a few steps."""
    for _ in range(STEPS):
        step()
    wait("cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(STEPS):
            step()
        wait("cuda")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    kernels = kernels_of(events)
    return kernels[-(len(kernels) // STEPS) :]


def kernels_of(events: Sequence[dict[str, Any]]) -> list[Kernel]:
    """The GPU's work in a trace of PyTorch's profiler, in the order in which it begins."""
    found = []
    for event in events:
        if event.get("cat") in KINDS:
            given = event["args"]
            grid = given.get("grid")
            programs = grid[0] * grid[1] * grid[2] if grid else None
            more = programs, given.get("registers per thread"), given.get("shared memory")
            found.append(Kernel(event["name"], event["ts"], event["dur"], given["stream"], *more))
    return sorted(found, key=lambda kernel: kernel.begin)


def idle(kernels: Sequence[Kernel]) -> float:
    """Microseconds from the first begin to the last end in which no kernel works.

    >>> idle([Kernel("a", 0, 4, 1), Kernel("b", 1, 2, 2), Kernel("c", 6, 1, 1)])
    2.0
    """
    free, end = 0.0, kernels[0].begin
    for kernel in kernels:
        free += max(0.0, kernel.begin - end)
        end = max(end, kernel.end)
    return free


def by_name(kernels: Sequence[Kernel]) -> dict[str, list[float]]:
    """The durations of all kernels of a name; most time first."""
    found: dict[str, list[float]] = defaultdict(list)
    for kernel in kernels:
        found[kernel.name].append(kernel.duration)
    return dict(sorted(found.items(), key=lambda item: -sum(item[1])))


def show(label: str, step_seconds: float, kernels: Sequence[Kernel]) -> None:
    whole = max(kernel.end for kernel in kernels) - kernels[0].begin
    print(f"\n{label}: {1e6 * step_seconds:.0f} µs per step, {whole:.0f} under the profiler, {idle(kernels):.0f} idle")
    for name, durations in list(by_name(kernels).items())[:20]:
        mean = sum(durations) / len(durations)
        print(f"{sum(durations):8.1f} µs  {len(durations):3d} × {mean:6.1f}  {name[:90]}")


def main() -> None:
    labels = [workload.label for workload in WORKLOADS["cuda"]]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for one file per workload")
    parser.add_argument("--work", nargs="+", default=labels, choices=labels, metavar="NAME")
    asked = parser.parse_args()
    make_folder(asked.out)
    origin = {"commit": commit(), "versions": versions(), "machine": machine("cuda")}
    for workload in WORKLOADS["cuda"]:
        if workload.label not in asked.work:
            continue
        step = seeded(workload.experiment("cuda", threads=1))
        step()
        seconds = 1 / rate(step, "cuda", 1.0)
        kernels = timeline(step)
        show(workload.label, seconds, kernels)
        name = workload.label.replace(",", "").replace(" ", "-")
        record = {"work": workload.label, **origin, "step_seconds": seconds, "kernels": [asdict(k) for k in kernels]}
        write_json(asked.out / f"{name}.json", record)


if __name__ == "__main__":
    main()
