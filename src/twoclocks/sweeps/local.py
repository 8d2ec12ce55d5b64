"""Executor ``local``: a process per cell on this machine, several at a time."""

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

from twoclocks.sweeps.executors import EXECUTORS, Executor, Job, JobResult, Pool
from twoclocks.sweeps.fork_server import GRACE


@EXECUTORS.register("local")
@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """A process per cell on this machine; on the CPU one a core, on GPUs several a device."""

    def open(self, device: str, root: Path) -> LocalPool:
        devices = gpu_count() if device == "cuda" else 0
        fitting = devices * self.cells_per_gpu if device == "cuda" else core_count()
        return LocalPool(self.workers or max(fitting, 1), devices)


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpu_count() -> int:
    import torch

    return torch.cuda.device_count()


class LocalPool(Pool):
    """Talks to a fork server; one that dies is replaced, and its orders are lost."""

    def __init__(self, capacity: int, devices: int) -> None:
        self._capacity, self.devices = capacity, devices
        self.running: dict[str, int] = {}  # key to device
        self.processes: dict[str, int] = {}  # key to process
        self.buffer = b""
        self.server: subprocess.Popen[bytes] | None = None

    @property
    def capacity(self) -> int:
        return self._capacity

    def start(self, order: Job) -> None:
        message: dict[str, Any] = order.as_json()
        device = min(range(max(self.devices, 1)), key=list(self.running.values()).count)
        if self.devices:
            message["environment"] = {"CUDA_VISIBLE_DEVICES": visible_devices(self.devices)[device]}
        self.running[order.key] = device
        self.tell(message)

    def tell(self, message: dict[str, Any]) -> None:
        if self.server is None:
            # A session of its own: Ctrl-C in the terminal reaches the coordinator alone, which then asks to stop.
            self.server = subprocess.Popen(
                [sys.executable, "-c", "from twoclocks.sweeps.fork_server import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        assert self.server.stdin is not None and self.server.stdout is not None
        data = json.dumps(message).encode() + b"\n"
        reading, writing = self.server.stdout.fileno(), self.server.stdin.fileno()
        while data:  # the fork server may be waiting for us to read what it said before it reads on
            ready, free, _ = select.select([reading], [writing], [])
            if ready:
                heard = os.read(reading, 1 << 16)
                self.buffer += heard
                if not heard:
                    return  # ``wait`` finds the fork server dead, and the order lost
            if free:
                try:
                    data = data[os.write(writing, data[: select.PIPE_BUF]) :]
                except BrokenPipeError:
                    return

    def wait(self, seconds: float) -> list[JobResult]:
        ended: list[JobResult] = []
        until = time.monotonic() + seconds
        while not ended and self.running and self.server is not None:
            assert self.server.stdout is not None
            if b"\n" not in self.buffer:
                ready, _, _ = select.select([self.server.stdout], [], [], max(0.0, until - time.monotonic()))
                if not ready:
                    break
                heard = os.read(self.server.stdout.fileno(), 1 << 16)
                self.buffer += heard
                if not heard:
                    return self.fork_server_died()
            *lines, self.buffer = self.buffer.split(b"\n")
            for message in map(json.loads, lines):
                if "process" in message:
                    self.processes[message["key"]] = message["process"]
                else:
                    ended.append(JobResult(**message))
                    self.running.pop(message["key"])
                    self.processes.pop(message["key"])
        return ended

    def fork_server_died(self) -> list[JobResult]:
        assert self.server is not None
        self.server.wait()
        lost = [JobResult(key, "lost", "the process that starts cells died") for key in self.running]
        self.server, self.buffer = None, b""
        self.running.clear()
        self.processes.clear()
        return lost

    def close(self) -> None:
        """What still runs is asked to stop; its last word is of no interest any more."""
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
    """Names of the GPUs that this process may use, in order."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(index) for index in range(count)]
