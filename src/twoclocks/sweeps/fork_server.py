"""A warm process that forks one child an order: a process a cell, without the seconds that importing torch takes.

It has no threads and no GPU context of its own, so forking is safe. It speaks JSON lines: orders come in on stdin,
``{"key", "process"}`` and ``{"key", "outcome", "reason"}`` go out on stdout. A child that dies costs its own cell.
When whoever gave the orders is gone, the children are asked to stop, and store what they have; so are those whose
fork server is gone.
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

GRACE = 20.0  # seconds that children have to stop after they were asked


class Child:
    """One forked process and the pipe through which it says its last word."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.key: str = order["key"]
        self.errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (closed in ``ended``)
        self.pipe, writing = os.pipe()
        server = os.getpid()
        self.process = os.fork()
        if self.process == 0:
            live(order, writing, self.errors.fileno(), server)
        os.close(writing)
        self.said = b""

    def ended(self) -> dict[str, str]:
        """Its last word, or what the system says of its death."""
        os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        with self.errors:
            with contextlib.suppress(ValueError):
                return {"key": self.key, **json.loads(self.said)}
            self.errors.seek(0)
            last = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
        code = os.waitstatus_to_exitcode(status)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        reason = f"the process {self.process} {how}" + (f": {last}" if last else "")
        return {"key": self.key, "outcome": "lost", "reason": reason}


def live(order: dict[str, Any], writing: int, errors: int, server: int) -> None:
    """The life of a child: one cell, one word, no return."""
    code = 1
    try:
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
        os.dup2(errors, 2)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.environ.update(order.get("environment", {}))
        threading.Thread(target=mind_parent, args=(server,), daemon=True).start()
        from twoclocks.sweeps.work import work

        os.write(writing, json.dumps(work(order)).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def mind_parent(parent: int) -> None:
    """Stop, with all stored, once nobody waits for the result."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


class ForkServer:
    """The loop of the warm process."""

    def __init__(self) -> None:
        self.children: dict[int, Child] = {}  # by pipe
        self.buffer = b""
        self.open = True

    def tell(self, **message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(1, json.dumps(message).encode() + b"\n")

    def listen(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self.open = False
            self.stop_all()
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            child = Child(json.loads(line))
            self.children[child.pipe] = child
            self.tell(key=child.key, process=child.process)

    def stop_all(self) -> None:
        self.deadline = time.monotonic() + GRACE
        for child in self.children.values():
            os.kill(child.process, signal.SIGTERM)

    def run(self) -> None:
        while self.open or self.children:
            ready, _, _ = select.select([0] * self.open + list(self.children), [], [], 1.0)
            for pipe in ready:
                if pipe == 0:
                    self.listen()
                    continue
                data = os.read(pipe, 1 << 16)
                self.children[pipe].said += data
                if not data:
                    self.tell(**self.children.pop(pipe).ended())
            if not self.open and time.monotonic() > self.deadline:
                for child in self.children.values():
                    os.kill(child.process, signal.SIGKILL)


def warm() -> None:
    """Import what a run imports, late imports of torch included, and look up once what every manifest holds."""
    from importlib import import_module

    for module in ("twoclocks.sweeps.work", "safetensors.torch", "torch._dynamo"):
        import_module(module)
    from twoclocks.store.provenance import commit, versions

    commit()
    versions()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warm()
    ForkServer().run()
