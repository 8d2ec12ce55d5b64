"""A disk that fails or kills at a chosen system call."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.store import files
from twoclocks.store.files import Disk

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EROFS": errno.EROFS, "EDQUOT": errno.EDQUOT}
CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Fault:
    """At the call of this number: ``kill`` before it, ``torn`` in the middle of a write, or an error of the system.

    The name of a signal, such as SIGTERM, sends it to the process itself before that call.
    """

    at: int
    kind: str


class FaultyDisk(Disk):
    """Counts every call that changes the disk; the fault comes at one of them, and a full disk stays full."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault, self.calls, self.names = fault, 0, list[str]()

    def meet(self, name: str, half: tuple[int, Any] | None = None) -> None:
        self.calls += 1
        self.names.append(name)
        if self.fault is None or self.calls < self.fault.at:
            return
        if self.fault.kind in ERRORS and (self.calls == self.fault.at or self.fault.kind != "EIO"):
            raise OSError(ERRORS[self.fault.kind], os.strerror(ERRORS[self.fault.kind]))
        if self.calls == self.fault.at and self.fault.kind in ("kill", "torn"):
            if half is not None and self.fault.kind == "torn":
                descriptor, data = half
                os.write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if self.calls == self.fault.at and self.fault.kind.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[self.fault.kind])

    def open(self, path: Path, flags: int) -> int:
        if flags & CHANGES:
            self.meet("open")
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes) -> int:
        self.meet("write", (descriptor, data))
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.meet("sync")
        # The tests' own disks need not be waited for: a killed process loses nothing that the system already has.

    def truncate(self, descriptor: int, size: int) -> None:
        self.meet("truncate")
        super().truncate(descriptor, size)

    def replace(self, source: Path, target: Path) -> None:
        self.meet("rename")
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self.meet("unlink")
        super().unlink(path)

    def make_folder(self, path: Path) -> None:
        self.meet("mkdir")
        super().make_folder(path)


@contextmanager
def faulty(fault: Fault | None = None) -> Iterator[FaultyDisk]:
    before, files.disk = files.disk, FaultyDisk(fault)
    try:
        yield files.disk
    finally:
        files.disk = before
