"""A lock that lets only one process write to a directory.

On one machine this is the operating system's file lock (flock), which ends with its process. On a disk that several
machines share, flock may not work between them. There the holder updates the time of the lock file regularly
(heartbeat). Another machine watches whether that time changes, so the clocks of the two need not agree; if it does not
change, the lock is taken over. The file contains process, host and a random token of its holder.

The holder compares before every write: is the file of this name still the one it locked, and is its token in it?
Otherwise the folder was moved, removed or replaced, or somebody else took the lock, and the writer stops.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
from functools import cache
from pathlib import Path
from types import TracebackType

from twoclocks.core.errors import UserError
from twoclocks.store import files

HEARTBEAT = 5.0  # seconds between two heartbeats
PROBE = 0.3  # seconds to wait for a held lock, which may be only the short test of ``is_held``
BEGIN = 5.0  # seconds to wait if its file names no living process: a holder would have written its name by then
SETTLE = 1.0  # seconds after which a writer on a shared disk reads its token back, in case two began at once
TIMEOUT = 30.0  # seconds without a heartbeat after which a holder on another machine counts as dead
HOLDER = 512  # bytes of the lock file
RECENT = 600.0  # seconds, more than clocks differ: a lock of another machine that is older counts as left behind
# File systems of one machine, where flock decides. On all others two machines may hold the "same" flock.
LOCAL = {"apfs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
NO_FLOCK = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)  # this disk has none: the heartbeat decides

log = logging.getLogger("twoclocks")


class LockedError(UserError):
    """Another process is writing to this directory."""


class LostLockError(LockedError):
    """The directory was moved, removed or replaced, or another process took its lock, while this one was writing."""


class WriterLock:
    """The lock of a directory, held during ``with WriterLock(folder) as lock: …``; ``lock.check`` guards writes."""

    def __init__(self, folder: Path, name: str = "lock") -> None:
        self.folder, self.path = folder, folder / name
        self.token = secrets.token_hex(8)
        self._lost: LostLockError | None = None
        self._done = threading.Event()

    def __enter__(self) -> WriterLock:
        with files.named_disk_errors(self.path):
            self.descriptor = self.acquire()
            try:
                self.wait_for_holder(before := read_holder(self.descriptor))
                holder = {"process": os.getpid(), **this_machine(), "token": self.token}
                # One write of a fixed length: two machines that write at once leave one holder, never a mixture.
                files.write_all(self.descriptor, json.dumps(holder).encode().ljust(HOLDER))
                files.disk.truncate(self.descriptor, HOLDER)
                if is_elsewhere(before) or not self.flocked or is_shared(self.folder):
                    self.settle()
            except BaseException:
                os.close(self.descriptor)
                raise
        self._thread = threading.Thread(target=self.send_heartbeats, daemon=True)
        self._thread.start()
        return self

    def acquire(self) -> int:
        """Lock the file that has this name now (a holder deletes its file at the end); return its descriptor."""
        begin = time.monotonic()
        while True:
            descriptor = files.disk.open(self.path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.flocked = True
            except BlockingIOError:
                holder = read_holder(descriptor)
                os.close(descriptor)
                named = is_elsewhere(holder) or is_alive(holder.get("process"))
                if time.monotonic() - begin < (PROBE if named else BEGIN):
                    time.sleep(0.005)
                    continue
                raise self.locked_by(holder) from None
            except OSError as error:
                if error.errno not in NO_FLOCK:
                    os.close(descriptor)
                    raise
                self.flocked = False
            if self.names(descriptor):
                return descriptor
            os.close(descriptor)

    def locked_by(self, holder: dict[str, object]) -> LockedError:
        return LockedError(f"{self.folder}: {describe(holder)} is writing to it; wait until it ends, or stop it")

    def names(self, descriptor: int) -> bool:
        """Whether the name of the lock still belongs to an open file, and not to another one or to none."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def wait_for_holder(self, holder: dict[str, object]) -> None:
        """LockedError if the earlier holder, which flock does not show, still sends heartbeats or lives here."""
        if not holder:
            return
        if is_elsewhere(holder):
            seen, until = last_heartbeat(self.path), time.monotonic() + TIMEOUT
            while time.monotonic() < until:
                time.sleep(min(0.5, TIMEOUT / 4))
                if last_heartbeat(self.path) != seen:
                    raise self.locked_by(read_holder_at(self.path) or holder)
        elif not self.flocked and is_alive(holder.get("process")):
            raise self.locked_by(holder)
        log.info(f"{self.folder}: {describe(holder)} left its lock behind; taken over")

    def settle(self) -> None:
        """Without a flock that both see, two machines may write their tokens at once: the last one stays."""
        time.sleep(SETTLE)
        try:
            self.check()
        except LostLockError:
            raise self.locked_by(read_holder_at(self.path)) from None

    def send_heartbeats(self) -> None:
        """Update the time of the lock file until the lock is released."""
        while not self._done.wait(HEARTBEAT):
            with contextlib.suppress(OSError):
                os.utime(self.descriptor)

    def check(self) -> None:
        """LostLockError unless this process is still the only one that may write; it is called before every write."""
        if self._lost is None:
            try:
                self.compare()
            except LostLockError as error:
                self._lost = error  # for good: another process may have written since, even if the folder comes back
        if self._lost is not None:
            raise self._lost

    def compare(self) -> None:
        """LostLockError if the file of this name is another one, or has another token."""
        if not self.names(self.descriptor):
            if self.path.exists():
                raise LostLockError(
                    f"{self.folder}: was replaced, or its lock was removed, and {describe(read_holder_at(self.path))} "
                    "may write to it now; this process stops and writes nothing more there"
                )
            what = "its lock was removed" if self.folder.is_dir() else "was moved or removed"
            raise LostLockError(
                f"{self.folder}: {what} while this process wrote to it; this process stops; "
                "repeat the command with the folder where it is now"
            )
        holder = read_holder_at(self.path)
        if holder.get("token") != self.token:
            raise LostLockError(f"{self.folder}: {describe(holder)} took it over; this process stops")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        with contextlib.suppress(OSError, LostLockError):  # a file that is not ours any more stays
            self.check()
            os.unlink(self.path)
        os.close(self.descriptor)


def read_holder(descriptor: int) -> dict[str, object]:
    """Process and host in the lock file; empty if the file is empty or incomplete."""
    try:
        value = json.loads(os.pread(descriptor, HOLDER, 0))
    except (ValueError, OSError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_holder_at(path: Path) -> dict[str, object]:
    """The same from a file that is opened anew: a network file system then asks for the current content."""
    try:
        with files.opened(path, os.O_RDONLY) as descriptor:
            return read_holder(descriptor)
    except OSError:
        return {}


def last_heartbeat(path: Path) -> tuple[object, ...]:
    """What changes while a holder lives, or when another one takes over: file, time by its clock, token."""
    try:
        with files.opened(path, os.O_RDONLY) as descriptor:  # opened anew, like ``read_holder_at``
            found = os.fstat(descriptor)
            return found.st_ino, found.st_mtime_ns, read_holder(descriptor).get("token")
    except OSError:
        return ()


def this_machine() -> dict[str, str]:
    """Name and start of this machine; two machines may have the same name, as containers often do."""
    return {"host": socket.gethostname(), "boot": boot_id()}


@cache
def boot_id() -> str:
    """A random number that the system drew when it started; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_elsewhere(holder: dict[str, object]) -> bool:
    """Whether a holder runs on another machine, or ran before this one was started again."""
    return bool(holder) and any(holder.get(key, value) != value for key, value in this_machine().items())


def is_alive(process: object) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(int(str(process)), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


def describe(holder: dict[str, object]) -> str:
    """Process and host of a holder, as text."""
    return f"process {holder.get('process', '?')} on {holder.get('host', '?')}"


def is_shared(folder: Path) -> bool:
    """Whether other machines may see this folder: its file system is not known to belong to one machine."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return True
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = {words[words.index("-") + 1] for words in mounts if words[2] == number}
    return not kinds <= LOCAL or not kinds


def is_held(folder: Path) -> bool:
    """Whether a process is writing to the directory now, on this machine or, by a recent heartbeat, on another."""
    try:
        with files.opened(folder / "lock", os.O_RDONLY) as descriptor:
            # A shared lock: two tests at the same time do not block each other.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            recent = abs(time.time() - os.fstat(descriptor).st_mtime) < RECENT
            return recent and is_elsewhere(read_holder(descriptor))
    except BlockingIOError:
        return True
    except OSError:
        return False
