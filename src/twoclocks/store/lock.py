"""A lock that lets only one process write to a directory.

On one machine this is the operating system's file lock (flock), which ends with its process. On a shared disk, the
holder on another machine updates the time of the lock file regularly (heartbeat); if it stops, the lock is taken over.
The file contains process and host, for error messages.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from twoclocks.core.errors import UserError
from twoclocks.store import files

HEARTBEAT = 5.0  # seconds between two heartbeats
PROBE = 0.3  # seconds to wait for a held lock, which may be only the short test of ``is_held``
TIMEOUT = 30.0  # seconds without a heartbeat after which a holder on another machine counts as dead

log = logging.getLogger("twoclocks")


class LockedError(UserError):
    """Another process is writing to this directory."""


class WriterLock:
    """The lock of a directory, held during ``with WriterLock(folder) as lock: …``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "lock"
        self.token = secrets.token_hex(8)
        self._done = threading.Event()

    def __enter__(self) -> WriterLock:
        with files.named_disk_errors(self.path):
            self.descriptor = self.acquire()
            try:
                self.check_dead(read_holder(self.descriptor))
                holder = {"process": os.getpid(), "host": socket.gethostname(), "token": self.token}
                files.disk.truncate(self.descriptor, 0)
                files.write_all(self.descriptor, json.dumps(holder).encode())
            except BaseException:
                os.close(self.descriptor)
                raise
        self._thread = threading.Thread(target=self.send_heartbeats, daemon=True)
        self._thread.start()
        return self

    def acquire(self) -> int:
        """Lock the file that has this name now (a holder deletes its file at the end); return its descriptor."""
        until = time.monotonic() + PROBE
        while True:
            descriptor = files.disk.open(self.path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = read_holder(descriptor)
                os.close(descriptor)
                if time.monotonic() < until:  # it may be the short test of ``is_held``
                    time.sleep(0.02)
                    continue
                raise LockedError(
                    f"{self.folder}: {describe(holder)} is writing to it; wait until it ends, or stop it"
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == self.path.stat().st_ino:
                    return descriptor
            os.close(descriptor)

    def check_dead(self, holder: dict[str, object]) -> None:
        """LockedError if the earlier holder runs on another machine and still sends heartbeats."""
        if not holder:
            return
        if holder.get("host") != socket.gethostname():
            seen, until = os.fstat(self.descriptor).st_mtime_ns, time.monotonic() + TIMEOUT
            while time.monotonic() < until:
                time.sleep(min(0.5, TIMEOUT / 4))
                if os.fstat(self.descriptor).st_mtime_ns != seen:
                    raise LockedError(
                        f"{self.folder}: {describe(holder)} is writing to it; wait until it ends, or stop it"
                    )
        log.info(f"{self.folder}: {describe(holder)} left its lock behind; taken over")

    def send_heartbeats(self) -> None:
        """Update the time of the lock file until the lock is released."""
        while not self._done.wait(HEARTBEAT):
            with contextlib.suppress(OSError):
                os.utime(self.descriptor)

    def check(self) -> None:
        """LockedError if another machine took the lock over, for example while this process was suspended."""
        holder = read_holder(self.descriptor)
        if holder.get("token") != self.token:
            raise LockedError(f"{self.folder}: {describe(holder)} took it over; this process stops")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            if read_holder(self.descriptor).get("token") == self.token:
                os.unlink(self.path)
        os.close(self.descriptor)


def read_holder(descriptor: int) -> dict[str, object]:
    """Process and host in the lock file; empty if the file is empty or incomplete."""
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, OSError):
        return {}
    return value if isinstance(value, dict) else {}


def describe(holder: dict[str, object]) -> str:
    """Process and host of a holder, as text."""
    return f"process {holder.get('process', '?')} on {holder.get('host', '?')}"


def is_held(folder: Path) -> bool:
    """Whether a process on this machine is writing to the directory now."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(
            descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB
        )  # a shared lock: two tests at the same time do not block each other
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
