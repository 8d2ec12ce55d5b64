"""Functions and commands in processes that are forked from this one, with a time limit; a hang is a result, too."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

LIMIT = [60.0]  # seconds for what takes less than one on an idle machine; a soak may choose another

Send = Callable[[dict[str, Any]], None]


@dataclass
class Ended:
    """How a process ended: what it sent, and its exit code, or minus the number of a signal; None: it hung."""

    code: int | None
    sent: list[dict[str, Any]] = field(default_factory=list)


class Forked:
    """A process of its own session that calls ``function(send)``; what it sends are JSON objects."""

    def __init__(self, function: Callable[[Send], int | None]) -> None:
        self.pipe, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            become(function, writing)
        os.close(writing)
        os.set_blocking(self.pipe, False)  # grandchildren may hold its other end, so that it has no end itself
        self.status: int | None = None
        self.buffer = b""
        self.ended: Ended | None = None

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if not self.has_ended():
            os.kill(self.pid, number)

    def has_ended(self) -> bool:
        if self.status is None:
            process, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if process else None
        return self.status is not None

    def read(self, seconds: float) -> None:
        """Read what was sent, and wait for it up to so many seconds."""
        if select.select([self.pipe], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self.pipe, 1 << 16):
                    self.buffer += data
                time.sleep(0.001)  # its end is reached: what is left is that of the process

    def wait_for_message(self) -> bool:
        """Wait until the process sent something or ended; whether it still runs."""
        until = time.monotonic() + LIMIT[0]
        while not self.buffer and not self.has_ended() and time.monotonic() < until:
            self.read(0.005)
        return bool(self.buffer) and not self.has_ended()

    def wait(self, times: float = 1) -> Ended:
        """Wait for the end; after ``times`` the limit a process is killed with its children, and counts as hung."""
        if self.ended is not None:
            return self.ended
        until, hung = time.monotonic() + times * LIMIT[0], False
        while not self.has_ended():
            self.read(0.005)
            if time.monotonic() > until and not hung:
                hung = True
                self.kill_all()
        self.read(0)
        os.close(self.pipe)
        assert self.status is not None
        lines = self.buffer.split(b"\n")[:-1]
        self.ended = Ended(None if hung else os.waitstatus_to_exitcode(self.status), [json.loads(x) for x in lines])
        return self.ended

    def kill(self) -> Ended:
        self.signal(signal.SIGKILL)
        return self.wait()

    def kill_all(self) -> None:
        """Kill the whole session, children included; for the end of a trial."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)  # it may not have its session yet


class ForkedServer:
    """The part of ``subprocess.Popen`` that a pool uses, for a fork server that is forked from this process."""

    def __init__(self, main: Callable[[], None]) -> None:
        (taken, giving), (reading, writing) = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for ours in (giving, reading):
                    os.close(ours)
                os.dup2(taken, 0)
                os.dup2(writing, 1)
                main()
            finally:
                os._exit(0)
        for theirs in (taken, writing):
            os.close(theirs)
        self.stdin: Any = os.fdopen(giving, "wb", 0)
        self.stdout: Any = os.fdopen(reading, "rb", 0)

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("a fork server", timeout or 0)
            else:
                time.sleep(0.005)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        return b"", (self.wait(timeout) and b"") or b""

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def become(function: Callable[[Send], int | None], writing: int) -> NoReturn:
    """In the child: default signal handlers, no standard streams; the function's return is the exit code."""
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)

        def send(message: dict[str, Any]) -> None:
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[os.write(writing, data) :]

        code = function(send) or 0
    except KeyboardInterrupt:  # before the command began: nothing has heard of it, as while Python starts
        code = 130
    except BaseException:
        with contextlib.suppress(BaseException):
            send({"name": "the test itself", "code": 1, "out": "", "err": "", "traceback": traceback.format_exc()})
    finally:
        os._exit(code)


def call_command(words: Sequence[str | Path]) -> dict[str, Any]:
    """``twoclocks WORDS`` in this process: its exit code, what it printed, and the traceback, if it had one."""
    from twoclocks.cli import main

    out, err, trace = io.StringIO(), io.StringIO(), ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = main([str(word) for word in words])
        except SystemExit as error:
            code = error.code
        except BaseException:
            code, trace = 1, traceback.format_exc()
    return {"name": words[0], "code": code, "out": out.getvalue(), "err": err.getvalue(), "traceback": trace}


def call_function(name: str, function: Callable[[], Any]) -> dict[str, Any]:
    """A function of the library as if it were a command: a UserError is exit code 2, other errors are tracebacks."""
    from twoclocks.core.errors import UserError

    try:
        return {"name": name, "code": 0, "value": function(), "err": "", "traceback": ""}
    except UserError as error:
        return {"name": name, "code": 2, "value": None, "err": str(error), "traceback": ""}
    except BaseException:
        return {"name": name, "code": 1, "value": None, "err": "", "traceback": traceback.format_exc()}
