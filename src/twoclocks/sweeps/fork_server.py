"""A fork server: a process that has imported torch and forks one child process per job, which saves the import time.

It has no threads and no GPU context of its own, so forking is safe. Its protocol are JSON lines: jobs arrive on stdin;
``{"key", "process"}`` and ``{"key", "outcome", "reason"}`` are written to stdout. If a child dies, only its cell is
lost. When stdin closes (the client has ended), the server sends SIGTERM to its children, which store their state and
stop. A child whose server has died does the same.
"""

from __future__ import annotations

import contextlib
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


class Child:
    """A forked process that runs one job, and the pipe for its result."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.key: str = job["key"]
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (closed in ``result``)
        self.pipe, writing = os.pipe()
        server = os.getpid()
        # This process ignores these signals. Blocked, one that comes before the child has its own handlers waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.process = os.fork()
        if self.process == 0:
            run_child(job, writing, self.errors.fileno(), server)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(writing)
        self.output = b""

    def result(self) -> dict[str, str]:
        """The result that the child wrote, or ``lost`` with its exit code or signal; waits for its end."""
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        with self.errors:
            with contextlib.suppress(ValueError):
                return {"key": self.key, **json.loads(self.output)}
            self.errors.seek(0)
            last = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
        code = os.waitstatus_to_exitcode(status)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        reason = f"the process {self.process} {how}" + (f": {last}" if last else "")
        return {"key": self.key, "outcome": "lost", "reason": reason}


def run_child(job: dict[str, Any], writing: int, errors: int, server: int) -> None:
    """The main function of a child: run the job, write its result to the pipe, and exit; it never returns."""
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
        from twoclocks.sweeps.work import run_job

        os.write(writing, json.dumps(run_job(job)).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


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
        self.buffer = b""
        self.open = True

    def send(self, **message: Any) -> None:
        """Write one message to stdout."""
        with contextlib.suppress(BrokenPipeError):
            os.write(1, json.dumps(message).encode() + b"\n")

    def read_jobs(self) -> None:
        """Read stdin and fork a child per job; stop all children at its end."""
        data = os.read(0, 1 << 16)
        if not data:
            self.open = False
            self.stop_all()
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            child = Child(json.loads(line))
            self.children[child.pipe] = child
            self.send(key=child.key, process=child.process)

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
                    continue
                data = os.read(pipe, 1 << 16)
                self.children[pipe].output += data
                if not data:
                    self.send(**self.children.pop(pipe).result())
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
    ForkServer().run()
