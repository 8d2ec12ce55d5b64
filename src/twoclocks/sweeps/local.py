"""Executor ``local``: one process per cell on this machine, several at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.core.config import setting
from twoclocks.sweeps.executors import EXECUTORS, Executor, Job, JobResult, Pool
from twoclocks.sweeps.fork_server import GRACE
from twoclocks.sweeps.together import MOST_TOGETHER, Packing


@EXECUTORS.register("local")
@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """One process per cell on this machine: on CPUs one cell per core, on GPUs several per device."""

    together: int = setting(
        1,
        "cells of one process that are trained together, if they have the same network, objective and batch; 0: as "
        "many as fill a GPU",
        at_least=0,
        at_most=MOST_TOGETHER,
    )
    batched: bool = setting(
        False, "on a GPU, as one computation instead of side by side, if they differ in seeds, data and rates alone"
    )

    @property
    def packing(self) -> Packing:
        return Packing(self.together, self.batched)

    def open(self, device: str, root: Path) -> LocalPool:
        devices = gpu_count() if device == "cuda" else 0
        room = devices * self.cells_per_gpu if device == "cuda" else core_count()
        return LocalPool(self.workers or max(room, 1), devices)


def core_count() -> int:
    """Number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpu_count() -> int:
    """Number of GPUs that this process may use."""
    import torch

    return torch.cuda.device_count()


class LocalPool(Pool):
    """Runs jobs in a fork server; if the server dies, its jobs are lost and a new one is started."""

    def __init__(self, capacity: int, devices: int) -> None:
        self._capacity, self.devices = capacity, devices
        self.running: dict[str, int] = {}  # key of a job to its device
        self.cells: dict[str, list[str]] = {}  # key of a job to the keys of its cells
        self.processes: dict[str, int] = {}  # key to process id
        self.buffer = b""
        self.server: subprocess.Popen[bytes] | None = None

    @property
    def capacity(self) -> int:
        return self._capacity

    def start(self, job: Job) -> None:
        message: dict[str, Any] = job.as_json()
        device = min(range(max(self.devices, 1)), key=list(self.running.values()).count)
        if self.devices:
            message["environment"] = {"CUDA_VISIBLE_DEVICES": visible_devices(self.devices)[device]}
        self.running[job.key], self.cells[job.key] = device, job.keys
        self.send(message)

    def send(self, message: dict[str, Any]) -> None:
        """Write one job to the fork server, which is started if needed."""
        if self.server is None:
            self.server = self.start_server()
        assert self.server.stdin is not None and self.server.stdout is not None
        data = json.dumps(message).encode() + b"\n"
        reading, writing = self.server.stdout.fileno(), self.server.stdin.fileno()
        while data:  # read its output too: the fork server may be blocked in writing, and then does not read
            ready, free, _ = select.select([reading], [writing], [])
            if ready:
                received = os.read(reading, 1 << 16)
                self.buffer += received
                if not received:
                    return  # the fork server died; ``wait`` reports the job as lost
            if free:
                try:
                    data = data[os.write(writing, data[: select.PIPE_BUF]) :]
                except BrokenPipeError:
                    return

    def start_server(self) -> subprocess.Popen[bytes]:
        """Start a fork server, in a new session: Ctrl-C in the terminal reaches only the coordinator."""
        return subprocess.Popen(
            [sys.executable, "-c", "from twoclocks.sweeps.fork_server import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    def wait(self, seconds: float) -> list[JobResult]:
        results: list[JobResult] = []
        until = time.monotonic() + seconds
        while not results and self.running and self.server is not None:
            assert self.server.stdout is not None
            if b"\n" not in self.buffer:
                ready, _, _ = select.select([self.server.stdout], [], [], max(0.0, until - time.monotonic()))
                if not ready:
                    break
                received = os.read(self.server.stdout.fileno(), 1 << 16)
                self.buffer += received
                if not received:
                    return self.lose_all_jobs()
            *lines, self.buffer = self.buffer.split(b"\n")
            for message in map(json.loads, lines):
                if "process" in message:
                    self.processes[message["key"]] = message["process"]
                else:
                    results += self.results_of(**message)
        return results

    def results_of(
        self, key: str, outcome: str, reason: str = "", members: dict[str, dict[str, str]] | None = None
    ) -> list[JobResult]:
        """The results of a job's cells; what was said of the whole job holds for each of them."""
        self.running.pop(key)
        self.processes.pop(key)
        whole = {"outcome": outcome, "reason": reason}
        return [JobResult(cell, **(members or {}).get(cell, whole)) for cell in self.cells.pop(key)]

    def lose_all_jobs(self) -> list[JobResult]:
        """Results of all jobs of a fork server that died."""
        assert self.server is not None
        self.server.wait()
        keys = [cell for key in self.running for cell in self.cells.pop(key)]
        lost = [JobResult(key, "lost", "the fork server died") for key in keys]
        self.server, self.buffer = None, b""
        self.running.clear()
        self.processes.clear()
        return lost

    def close(self) -> None:
        """Close the fork server's stdin, so that it stops its children; their results are ignored."""
        if self.server is None:
            return
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.stdin = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.server.communicate(timeout=GRACE + 10)
        self.server.kill()
        self.server.communicate()
        self.server = None


def visible_devices(count: int) -> list[str]:
    """Identifiers of the GPUs that this process may use, as for CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(index) for index in range(count)]
