"""A fork server: a process that has imported torch and forks a child process per job, which saves the import time.

It has no threads and no GPU context of its own, so forking is safe. Its protocol are JSON lines: jobs arrive on stdin;
``{"key", "process"}`` and ``{"key", "outcome", "reason"}`` are written to stdout. If a child dies, only its cell is
lost. When stdin closes (the client has ended), the server sends SIGTERM to its children, which store their state and
stop. A child whose server has died does the same.

To fork, and to touch pages and load code for the first time, takes longer than a job of a few steps. So a child whose
job was short and succeeded waits for another one; after any other job it ends.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from typing import Any, BinaryIO

GRACE = 20.0  # seconds between SIGTERM and SIGKILL
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # for the coordinator, which closes stdin at its end
SHORT = 1.0  # seconds of CPU time of a job after which its process may run another one
MOST_JOBS = 100  # of one process, so that nothing can pile up in it


class Child:
    """A forked process that runs jobs, one at a time, and the pipes for further jobs and for results."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.key: str | None = job["key"]  # None while it waits for a job
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (closed in ``end``)
        self.pipe, writing = os.pipe()
        reading, self.jobs = os.pipe()
        server = os.getpid()
        # This process ignores these signals. Blocked, one that comes before the child has its own handlers waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.process = os.fork()
        if self.process == 0:
            run_child(job, reading, writing, self.errors.fileno(), server)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(writing)
        os.close(reading)
        self.output = b""

    def give(self, job: dict[str, Any]) -> None:
        """Send a job to a child that waits for one; if it has died meanwhile, the job is lost, which its end shows."""
        self.key = job["key"]
        data = memoryview(json.dumps(job).encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self.jobs, data) :]

    def result(self) -> dict[str, str] | None:
        """The result that the child wrote, once it is complete; the child then waits, or is about to end."""
        line, end, self.output = self.output.partition(b"\n")
        if not end:
            self.output = line
            return None
        found, self.key = {"key": self.key, **json.loads(line)}, None
        return found

    def end(self) -> dict[str, str] | None:
        """Wait for the end of the child; return ``lost`` with its exit code or signal if its job has no result."""
        os.close(self.pipe)
        os.close(self.jobs)
        _, status = os.waitpid(self.process, 0)
        with self.errors:
            if self.key is None:
                return None
            self.errors.seek(0)
            last = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
        code = os.waitstatus_to_exitcode(status)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        reason = f"the process {self.process} {how}" + (f": {last}" if last else "")
        return {"key": self.key, "outcome": "lost", "reason": reason}


def run_child(job: dict[str, Any], reading: int, writing: int, errors: int, server: int) -> None:
    """The main function of a child: run the job and write its result, then others if it may; it never returns."""
    code = 1
    try:
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
        os.dup2(errors, 2)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.environ.update(job.get("environment", {}))
        threading.Thread(target=stop_with_parent, args=(server,), daemon=True).start()
        run_jobs(job, reading, writing)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def run_jobs(job: dict[str, Any], reading: int, writing: int) -> None:
    """Run a job, and as long as all were short and succeeded, those that follow; write a line per result.

    A job with an environment of its own, such as a GPU, has a process of its own: idle ones would hold its memory.
    """
    from twoclocks.sweeps.work import run_job

    with os.fdopen(reading, "rb") as further:
        for count in range(1, MOST_JOBS + 1):
            begin = time.process_time()
            result = run_job(job)
            short = time.process_time() - begin < SHORT
            outcomes = {one["outcome"] for one in (result, *result.get("members", {}).values())}
            again = short and outcomes == {"finished"} and "environment" not in job and count < MOST_JOBS
            os.write(writing, json.dumps({**result, "again": again}).encode() + b"\n")
            line = further.readline() if again else b""
            if not line:
                return
            job = json.loads(line)
            os.ftruncate(2, os.lseek(2, 0, os.SEEK_SET))  # what the last job said is no reason for this one's end


def stop_with_parent(parent: int) -> None:
    """Send SIGTERM to this process when its parent has died; the run then stores its state and stops, or is killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


class ForkServer:
    """The main loop of the fork server."""

    def __init__(self) -> None:
        self.children: dict[int, Child] = {}  # by pipe
        self.waiting: list[Child] = []  # for a job
        self.buffer = b""
        self.open = True

    def send(self, **message: Any) -> None:
        """Write one message to stdout."""
        with contextlib.suppress(BrokenPipeError):
            os.write(1, json.dumps(message).encode() + b"\n")

    def read_jobs(self) -> None:
        """Read stdin and start its jobs; stop all children at its end."""
        data = os.read(0, 1 << 16)
        if not data:
            self.open = False
            self.stop_all()
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for job in map(json.loads, lines):
            if self.waiting and "environment" not in job:
                child = self.waiting.pop()
                child.give(job)
            else:
                child = Child(job)
                self.children[child.pipe] = child
            self.send(key=child.key, process=child.process)

    def read_result(self, child: Child) -> None:
        """Read what a child wrote; send a result that is complete, or that the child has died without one."""
        data = os.read(child.pipe, 1 << 16)
        child.output += data
        if not data:
            del self.children[child.pipe]
            if child in self.waiting:
                self.waiting.remove(child)
            found = child.end()
        else:
            found = child.result()
            if found is not None and found.pop("again"):
                self.waiting.append(child)
        if found is not None:
            self.send(**found)

    def stop_all(self) -> None:
        """Send SIGTERM to all children."""
        self.deadline = time.monotonic() + GRACE
        for child in self.children.values():
            os.kill(child.process, signal.SIGTERM)

    def run(self) -> None:
        """Start jobs and send results until stdin is closed and all children have ended."""
        while self.open or self.children:
            ready, _, _ = select.select([0] * self.open + list(self.children), [], [], 1.0)
            for pipe in ready:
                if pipe == 0:
                    self.read_jobs()
                else:
                    self.read_result(self.children[pipe])
            if not self.open and time.monotonic() > self.deadline:
                for child in self.children.values():
                    os.kill(child.process, signal.SIGKILL)


def preload() -> None:
    """Import all modules that a run needs, and cache commit and versions, which every manifest contains."""
    from importlib import import_module

    for module in ("twoclocks.sweeps.work", "safetensors.torch", "torch._dynamo"):
        import_module(module)
    from twoclocks.store.provenance import commit, versions

    commit()
    versions()


def main() -> None:
    """Run a fork server; signals from the terminal are ignored, since the client closes stdin."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    preload()
    gc.freeze()  # a child that collects garbage would otherwise touch, and so copy, every page of these modules
    ForkServer().run()
