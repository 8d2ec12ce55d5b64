"""One writer a directory.

On one machine the system's own file lock decides, and it ends with the process that holds it, however that dies. A
holder on another machine, over a shared disk, shows that it lives by touching the lock file; one that stays silent is
taken over. The file names process and host for people.
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

BEAT = 5.0  # seconds between two signs of life
GLANCE = 0.3  # seconds for which a lock that is held may be a mere look at it
SILENCE = 30.0  # seconds without one after which a holder on another machine counts as dead

log = logging.getLogger("twoclocks")


class LockedError(UserError):
    """Another process writes this directory."""


class WriterLock:
    """Held while a directory is written: ``with WriterLock(folder) as lock: …``"""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "lock"
        self.token = secrets.token_hex(8)
        self._done = threading.Event()

    def __enter__(self) -> WriterLock:
        with files.named_disk_errors(self.path):
            self.descriptor = self.acquire()
            try:
                self.outlast(read_holder(self.descriptor))
                holder = {"process": os.getpid(), "host": socket.gethostname(), "token": self.token}
                files.disk.truncate(self.descriptor, 0)
                files.write_all(self.descriptor, json.dumps(holder).encode())
            except BaseException:
                os.close(self.descriptor)
                raise
        self._thread = threading.Thread(target=self.show_life, daemon=True)
        self._thread.start()
        return self

    def acquire(self) -> int:
        """The system's lock on the file that bears the name now: a holder removes the file when it is done."""
        until = time.monotonic() + GLANCE
        while True:
            descriptor = files.disk.open(self.path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = read_holder(descriptor)
                os.close(descriptor)
                if time.monotonic() < until:  # it may be one who only looks whether anybody writes
                    time.sleep(0.02)
                    continue
                raise LockedError(f"{self.folder}: {words(holder)} writes it; wait for it or stop it") from None
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == self.path.stat().st_ino:
                    return descriptor
            os.close(descriptor)

    def outlast(self, holder: dict[str, object]) -> None:
        """The earlier holder is dead if it ran on this machine; on another, it must have been silent long enough."""
        if not holder:
            return
        if holder.get("host") != socket.gethostname():
            seen, until = os.fstat(self.descriptor).st_mtime_ns, time.monotonic() + SILENCE
            while time.monotonic() < until:
                time.sleep(min(0.5, SILENCE / 4))
                if os.fstat(self.descriptor).st_mtime_ns != seen:
                    raise LockedError(f"{self.folder}: {words(holder)} writes it; wait for it or stop it")
        log.info(f"{self.folder}: {words(holder)} left its lock behind; taken over")

    def show_life(self) -> None:
        while not self._done.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self.descriptor)

    def check(self) -> None:
        """Refuse to write once another machine took over, say after this process slept."""
        holder = read_holder(self.descriptor)
        if holder.get("token") != self.token:
            raise LockedError(f"{self.folder}: {words(holder)} took it over; this process stops")

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
    """Who wrote the lock file; nothing where it is empty or torn."""
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, OSError):
        return {}
    return value if isinstance(value, dict) else {}


def words(holder: dict[str, object]) -> str:
    return f"process {holder.get('process', '?')} on {holder.get('host', '?')}"


def is_held(folder: Path) -> bool:
    """Whether a process of this machine writes the directory now."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look do not see each other
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
