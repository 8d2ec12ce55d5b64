"""File operations that survive crashes: atomic writes, and appends that are on disk when the call returns.

Every system call that changes the disk is a method of ``Disk``, so that tests can make each of them fail.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError

PARTIAL = ".partial"  # suffix of temporary files; they stay if a process dies while it writes them
DOCUMENT = 1 << 28  # bytes of the largest JSON document that is read

Guard = Callable[[], None]  # raises if this process must not write any more


def unguarded() -> None:
    """The guard of a file that one process alone knows."""


FIXES = {
    errno.ENOSPC: "free some space, then repeat the command",
    errno.EDQUOT: "free some space within your quota, then repeat the command",
    errno.EROFS: "mount it for writing or choose another folder",
    errno.EACCES: "make it writable or choose another folder",
    errno.EPERM: "make it writable or choose another folder",
    errno.EIO: "the disk reports an error; check it, then repeat the command",
    errno.ELOOP: "run directories must not contain symbolic links; copy the file itself there",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EISDIR: "a file is needed in its place; restore it",
    errno.ENOTSUP: "a file is needed in its place; restore it",
    errno.ENXIO: "a file is needed in its place; restore it",
    errno.EMLINK: "copy the folder with all its files (cp -r), and use the copy",
    errno.EFBIG: "restore the file",
}


class DiskError(UserError):
    """The disk is full, read-only, broken or not permitted; files that were complete before are unchanged."""

    def __init__(self, path: Path, error: OSError, note: str = "") -> None:
        self.path, self.error = path, error
        self.fault = error.errno in (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EROFS,
            errno.EIO,
        )  # a fault of the disk, not of the input
        fix = FIXES.get(error.errno or 0, "choose a place that can be read and written")
        super().__init__("; ".join(filter(None, [f"{path}: {error.strerror or error}", note, fix])))

    def with_note(self, note: str) -> DiskError:
        """The same error with a note between reason and fix."""
        return DiskError(self.path, self.error, note)


@contextlib.contextmanager
def named_disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a DiskError: one line with the file, the reason and the fix."""
    try:
        yield
    except OSError as error:
        raise DiskError(path, error) from error


class Disk:
    """The system calls that change the disk."""

    def open(self, path: Path, flags: int) -> int:
        """Open a regular file, never through a symbolic link; folders above it may be links, as ``/tmp`` often is.

        A pipe, device or socket is refused at once: opening or reading it could wait for ever. A file with a second
        name (a hard link) is not opened for writing, since the other name may belong to somebody else.
        """
        if flags & os.O_DIRECTORY:
            return os.open(path, flags | os.O_CLOEXEC)
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.ENOTSUP, "is not a regular file")
            if found.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
                raise OSError(errno.EMLINK, "has a second name (a hard link), which writing would change too")
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def make_folder(self, path: Path) -> None:
        os.mkdir(path)


disk = Disk()


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """A file descriptor that is closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A file that is open during the block."""
    with closing(disk.open(path, flags)) as descriptor:
        yield descriptor


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in several calls if needed."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]  # type: ignore[arg-type]  # a view saves copying a checkpoint


def write_atomic(path: Path, data: bytes, guard: Guard = unguarded) -> None:
    """Replace a file atomically: temporary file, fsync, rename, fsync of the folder. Readers see the old or new one.

    ``guard`` is asked before the file is written, and again before it gets its name, because writing takes time.
    """
    guard()
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(4)}{PARTIAL}"  # a name has at most 255 bytes
    with named_disk_errors(path):
        descriptor = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with closing(descriptor):
                write_all(descriptor, data)
                disk.sync(descriptor)
            guard()
            disk.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write a folder's list of names to disk; a new file survives a power failure only after this."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        disk.sync(descriptor)


def append(path: Path, data: bytes, size: int, guard: Guard = unguarded) -> None:
    """Append bytes to a file of ``size`` bytes, and fsync; if writing fails, truncate the file again.

    Bytes beyond ``size`` are removed first: a process that was suspended while another took its lock over may have
    written them when it woke up.
    """
    guard()
    with named_disk_errors(path):
        new = not path.exists()
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
            try:
                if os.fstat(descriptor).st_size > size:
                    disk.truncate(descriptor, size)
                write_all(descriptor, data)
                disk.sync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        if new:
            sync_folder(path.parent)


def truncate(path: Path, size: int, guard: Guard = unguarded) -> None:
    """Truncate a file to its first ``size`` bytes; the fsync of the next append covers this too."""
    guard()
    with named_disk_errors(path), opened(path, os.O_WRONLY) as descriptor:
        disk.truncate(descriptor, size)


def remove(path: Path, guard: Guard = unguarded) -> None:
    """Delete a file if it exists."""
    guard()
    with named_disk_errors(path), contextlib.suppress(FileNotFoundError):
        disk.unlink(path)


def make_folder(path: Path) -> None:
    """Create a folder and its parents; they survive a power failure after this returns."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    with named_disk_errors(path):
        with contextlib.suppress(FileExistsError):
            disk.make_folder(path)
        sync_folder(path.parent)


def read(path: Path, most: int | None = None) -> bytes:
    """Read a regular file of at most ``most`` bytes; a symbolic link is an error, since it may point anywhere."""
    with named_disk_errors(path), os.fdopen(disk.open(path, os.O_RDONLY), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if most is not None and size > most:
            raise OSError(errno.EFBIG, f"is too large: {size:,} bytes, at most {most:,} are read")
        return stream.read()


def read_end(path: Path, size: int) -> bytes:
    """The last ``size`` bytes of a regular file, or all of it."""
    with named_disk_errors(path), os.fdopen(disk.open(path, os.O_RDONLY), "rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - size))
        return stream.read()


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, atomically."""
    write_atomic(path, json.dumps(value, indent=2, sort_keys=False, allow_nan=False).encode() + b"\n")


def digest(data: bytes) -> str:
    """SHA-256 as hexadecimal text."""
    return hashlib.sha256(data).hexdigest()
