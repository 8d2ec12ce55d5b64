"""How many training steps several processes on one GPU take together, with and without NVIDIA's MPS.

    python benchmarks/shared_gpu.py --out results/shared_gpu.json

Without the Multi-Process Service (MPS), a GPU works for one process at a time, and a small network leaves most of it
idle. Every process builds a run on a grammar and captures its step. Then the first K of them replay steps from the same
time on, for the same seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from twoclocks.bench.timing import wait
from twoclocks.core.config import to_mapping
from twoclocks.runs import RunSettings, load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.store.files import write_json
from twoclocks.store.provenance import commit, machine, versions

CONTROL = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
TOGETHER = 20  # steps between two readings of the time: the host may be ahead of the GPU by so many
SOON = 0.5  # seconds until all processes begin
PATIENCE = 30.0  # seconds for MPS to end


def settings_of(width: int, device: str) -> RunSettings:
    """A run as the reproduction makes many of: a narrow network, 32 strings per step."""
    change = {"model.width": width, "objective.sampler_levels": 250, "training.device": device, "training.threads": 1}
    return load_settings("p2-rhm-l3-authors", {**change, "data.n": 4096})


def work(width: int, device: str) -> None:
    """A process: for every line on stdin, which names a time and seconds, replay steps and print how many."""
    step, number = Experiment(settings_of(width, device)).make_step(), 1
    step(number)
    wait(device)
    print("ready", flush=True)
    for line in sys.stdin:
        start, seconds = map(float, line.split())
        time.sleep(max(0.0, start - time.time()))
        first, begin = number, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for _ in range(TOGETHER):
                number += 1
                step(number)
            wait(device)
        print((number - first) / (time.perf_counter() - begin), flush=True)


class Workers:
    """Processes that have captured their step and wait for a time to begin."""

    def __init__(self, count: int, width: int, device: str, environment: Mapping[str, str]) -> None:
        words = [sys.executable, __file__, "--worker", "--width", str(width), "--device", device]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes = [subprocess.Popen(words, env={**os.environ, **environment}, **pipes) for _ in range(count)]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            if error[0] is not None:
                process.kill()
            process.communicate()  # the end of stdin ends the process

    def lines(self, count: int) -> list[str]:
        """The next line of each of the first processes."""
        found = [process.stdout.readline().strip() for process in self.processes[:count] if process.stdout is not None]
        if not all(found):
            raise SystemExit("shared_gpu: a process ended early; its error is above")
        return found

    def rates(self, count: int, seconds: float) -> list[float]:
        """Steps per second of each of the first processes, all at the same time."""
        start = time.time() + SOON
        for process in self.processes[:count]:
            assert process.stdin is not None
            process.stdin.write(f"{start} {seconds}\n")
            process.stdin.flush()
        return [float(line) for line in self.lines(count)]


@contextlib.contextmanager
def service(use: bool) -> Iterator[dict[str, str]]:
    """The environment of processes with or without MPS; its daemon is started here, and stopped in the end.

    The folder of its pipes is a new one, so a daemon of somebody else is neither used nor stopped.
    """
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as folder:
        environment = {PIPES: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        if not use:
            yield environment
            return
        whole = {**os.environ, **environment}
        try:
            subprocess.run([CONTROL, "-d"], env=whole, check=True, timeout=PATIENCE)
            yield environment
        finally:
            stop(Path(folder), whole)


def stop(folder: Path, environment: Mapping[str, str]) -> None:
    """Stop the daemon whose pipes are in a folder: by its own command, or by its process id."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([CONTROL], env=environment, input="quit\n", text=True, timeout=PATIENCE, check=False)
        if done.returncode == 0:
            return
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((folder / f"{CONTROL}.pid").read_text()), signal.SIGTERM)


def measure(arguments: argparse.Namespace, use: bool) -> Iterator[dict[str, Any]]:
    """One row per number of processes."""
    with (
        service(use) as environment,
        Workers(max(arguments.processes), arguments.width, arguments.device, environment) as workers,
    ):
        workers.lines(max(arguments.processes))
        for count in arguments.processes:
            rates = workers.rates(count, arguments.seconds)
            yield {"mps": use, "processes": count, "steps_per_second": rates, "together": sum(rates)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.width, arguments.device)
    if arguments.out is None:
        parser.error("--out: give the file to write")
    there = arguments.device != "cpu" and shutil.which(CONTROL) is not None
    if not there:
        print(f"MPS is not measured: there is no {CONTROL}, or no GPU", flush=True)
    rows = []
    print(f"{'MPS':>5} {'processes':>9} {'steps/s together':>16} {'steps/s each':>12}")
    for use in (False, True) if there else (False,):
        for row in measure(arguments, use):
            rows.append(row)
            each = row["together"] / row["processes"]
            print(
                f"{'yes' if use else 'no':>5} {row['processes']:>9} {row['together']:>16,.0f} {each:>12,.0f}",
                flush=True,
            )
    about = {"commit": commit(), "versions": versions(), "machine": machine(arguments.device)}
    chosen = {"seconds": arguments.seconds, "settings": to_mapping(settings_of(arguments.width, arguments.device))}
    command = "python benchmarks/shared_gpu.py --out results/shared_gpu.json"
    write_json(arguments.out, {"command": command, **about, **chosen, "mps_installed": there, "rows": rows})


if __name__ == "__main__":
    main()
