"""The one place that touches the disk: whole files or none, lines that are on disk before anybody counts on them.

Every system call that changes the disk is a method of ``Disk``, so that tests can fail or kill a run at each of them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError

PARTIAL = ".partial"  # the ending of files that were being written when a process died

FIXES = {
    errno.ENOSPC: "free some space, then give the same command again",
    errno.EDQUOT: "free some space within your quota, then give the same command again",
    errno.EROFS: "mount it for writing or choose another folder",
    errno.EACCES: "make it writable or choose another folder",
    errno.EPERM: "make it writable or choose another folder",
    errno.EIO: "the disk itself reports an error; check it, then give the same command again",
    errno.ELOOP: "symbolic links are refused in run directories; put the file itself there",
    errno.ENAMETOOLONG: "choose a shorter name",
}


class DiskError(UserError):
    """The disk is full, read-only, broken or forbidden; what was complete before is still there."""

    def __init__(self, path: Path, error: OSError, note: str = "") -> None:
        self.path, self.error = path, error
        self.fault = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)  # the disk's, not the input's
        fix = FIXES.get(error.errno or 0, "choose a place that can be read and written")
        super().__init__("; ".join(filter(None, [f"{path}: {error.strerror or error}", note, fix])))

    def noting(self, note: str) -> DiskError:
        return DiskError(self.path, self.error, note)


@contextlib.contextmanager
def named_disk_errors(path: Path) -> Iterator[None]:
    """The system's refusal as one line with the file, the reason and the fix."""
    try:
        yield
    except OSError as error:
        raise DiskError(path, error) from error


class Disk:
    """The system calls by which anything changes."""

    def open(self, path: Path, flags: int) -> int:
        """A file itself, never one that a link points to; folders may lie behind links, as ``/tmp`` often does."""
        return os.open(path, flags | os.O_CLOEXEC | (0 if flags & os.O_DIRECTORY else os.O_NOFOLLOW), 0o644)

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
def opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = disk.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]  # type: ignore[arg-type]  # a view saves copying a checkpoint


def write_atomic(path: Path, data: bytes) -> None:
    """Temporary file in the same folder, fsync, rename, fsync of the folder: a reader sees the old or the new file."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}{PARTIAL}"
    with named_disk_errors(path):
        try:
            with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                write_all(descriptor, data)
                disk.sync(descriptor)
            disk.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Names are part of a folder: a new file survives a power cut only once its folder is on disk."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        disk.sync(descriptor)


def append(path: Path, data: bytes, size: int) -> None:
    """Bytes after the first ``size`` of a file, on disk before this returns; what does not fit whole is taken back."""
    with named_disk_errors(path):
        new = not path.exists()
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
            try:
                write_all(descriptor, data)
                disk.sync(descriptor)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        if new:
            sync_folder(path.parent)


def cut(path: Path, size: int) -> None:
    """Only the first ``size`` bytes of a file stay; the next append syncs this too."""
    with named_disk_errors(path), opened(path, os.O_WRONLY) as descriptor:
        disk.truncate(descriptor, size)


def remove(path: Path) -> None:
    with named_disk_errors(path), contextlib.suppress(FileNotFoundError):
        disk.unlink(path)


def make_folder(path: Path) -> None:
    """The folder and those above it; each survives a power cut once this returns."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    with named_disk_errors(path):
        with contextlib.suppress(FileExistsError):
            disk.make_folder(path)
        sync_folder(path.parent)


def read(path: Path) -> bytes:
    """The bytes of a plain file; a symbolic link is refused, since it may point anywhere."""
    with named_disk_errors(path), os.fdopen(disk.open(path, os.O_RDONLY), "rb") as stream:
        return stream.read()


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=2, sort_keys=False, allow_nan=False).encode() + b"\n")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
