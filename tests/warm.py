"""Start the command in a process that is forked from one which has already imported torch.

A fresh process pays about three seconds of CPU time for that import, and many tests start a command only to stop it,
kill it or read its output. A ``WarmCommand`` is a real process with its own id, default signal handlers, folder,
environment and standard streams; its exit code is reported by the server, which is its parent. For each kind of test,
one test at least starts ``python -m twoclocks`` itself.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from twoclocks.sweeps.fork_server import preload
from twoclocks.sweeps.local import LocalPool

MODULES = ("twoclocks.cli", "twoclocks.report.page", "twoclocks.dissection")
STREAMS = ("stdin", "stdout", "stderr")


class WarmCommand:
    """The part of ``subprocess.Popen`` that tests use, for ``twoclocks WORDS`` or another function."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        function: str = "twoclocks.cli:main",
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        start_new_session: bool = False,
    ) -> None:
        self.returncode: int | None = None
        theirs: list[int] = []
        self.stdin, self.stdout, self.stderr = (
            self.open_stream(name, given, theirs) for name, given in zip(STREAMS, (stdin, stdout, stderr), strict=True)
        )
        request = {
            "function": function,
            "words": [str(word) for word in words],
            "folder": str(Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "session": start_new_session,
        }
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.link.connect(address_of_server())
        socket.send_fds(self.link, [b"x"], theirs)
        self.link.sendall(json.dumps(request).encode() + b"\n")
        for descriptor in theirs:
            os.close(descriptor)
        self.answers = self.link.makefile("r")
        self.pid = int(self.answers.readline())

    @staticmethod
    def open_stream(name: str, given: int, theirs: list[int]) -> Any:
        """Our end of a pipe, or None; the end of the new process is added to ``theirs``."""
        if given == subprocess.PIPE:
            reading, writing = os.pipe()
            theirs.append(reading if name == "stdin" else writing)
            return os.fdopen(writing, "wb", 0) if name == "stdin" else os.fdopen(reading, "rb", 0)
        theirs.append(os.open(os.devnull, os.O_RDWR) if given == subprocess.DEVNULL else os.dup(given))
        return None

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal; None while the process runs."""
        if self.returncode is None and select.select([self.link], [], [], 0)[0]:
            self.returncode = int(self.answers.readline())
            self.link.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self.link], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a warm command", timeout or 0)
        self.poll()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What the process writes to its pipes until they are closed; then its end is waited for."""
        until = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None:
            self.stdin.close()
        printed = {stream: b"" for stream in (self.stdout, self.stderr) if stream is not None and not stream.closed}
        open_streams = list(printed)
        while open_streams:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = select.select(open_streams, [], [], left)[0]
            if not ready:
                raise subprocess.TimeoutExpired("a warm command", timeout or 0)
            for stream in ready:
                data = os.read(stream.fileno(), 1 << 16)
                printed[stream] += data
                if not data:
                    open_streams.remove(stream)
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        for stream in printed:
            stream.close()
        return printed.get(self.stdout, b"").decode(), printed.get(self.stderr, b"").decode()


@cache
def address_of_server() -> str:
    """Start the server of this test process; it ends when the process ends, which closes its stdin."""
    if __name__ == "__main__":  # in a command, which was forked from the server
        return sys.argv[1]
    folder = tempfile.TemporaryDirectory(prefix="tc-warm-")  # short: a socket's path has 107 bytes
    address = str(Path(folder.name) / "socket")
    server = subprocess.Popen([sys.executable, __file__, address], stdin=-1, stdout=-1, start_new_session=True)
    assert server.stdin is not None and server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def stop() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(stop)
    return address


def start_warm_server(self: LocalPool) -> WarmCommand:
    """In the place of ``LocalPool.start_server``: a sweep's fork server that has nothing left to import."""
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return WarmCommand([], function="twoclocks.sweeps.fork_server:main", start_new_session=True, **ends)


class Server:
    """Forks one process per connection and reports its id and its exit code."""

    def __init__(self, address: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(address)
        self.listener.listen(64)
        self.links: dict[int, socket.socket] = {}  # by process
        self.woken, self.waking = os.pipe()
        os.set_blocking(self.waking, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self.waking)

    def run(self) -> None:
        """Serve until stdin is closed."""
        while True:
            ready = select.select([0, self.listener, self.woken], [], [])[0]
            if self.listener in ready:
                self.fork()
            if self.woken in ready:
                os.read(self.woken, 1 << 10)
                self.report_ended()
            if 0 in ready and not os.read(0, 1):
                return

    def fork(self) -> None:
        link = self.listener.accept()[0]
        _, streams, _, _ = socket.recv_fds(link, 1, 3)
        data = b""
        while not data.endswith(b"\n"):
            data += link.recv(1 << 16)
        process = os.fork()
        if process == 0:
            link.close()
            self.become(json.loads(data), streams)
        for descriptor in streams:
            os.close(descriptor)
        self.links[process] = link
        self.answer(process, process)

    def answer(self, process: int, number: int) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.links[process].sendall(b"%d\n" % number)

    def report_ended(self) -> None:
        """Reap every child that has ended and send its exit code."""
        while self.links:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            self.answer(process, os.waitstatus_to_exitcode(status))
            self.links.pop(process).close()

    def become(self, request: dict[str, Any], streams: list[int]) -> NoReturn:
        """In the child: call the function as a fresh process would; its return is the end of the process."""
        address_of_server()  # kept before the words of the command replace it
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in (self.woken, self.waking):
            os.close(descriptor)
        self.listener.close()
        for link in self.links.values():
            link.close()
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
            os.close(descriptor)
        if request["session"]:
            os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        LocalPool.start_server = start_warm_server  # type: ignore[assignment,method-assign]
        sys.argv = ["twoclocks", *request["words"]]
        module, name = request["function"].split(":")
        raise SystemExit(getattr(import_module(module), name)())


def main() -> None:
    """Import what commands need, open the socket, and serve."""
    preload()
    for module in MODULES:
        import_module(module)
    server = Server(sys.argv[1])
    os.write(1, b"ready\n")
    server.run()


if __name__ == "__main__":
    main()
