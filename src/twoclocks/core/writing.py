"""Write a file that the user names, atomically: readers see the old file or the complete new one."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from twoclocks.core.errors import UserError


def replace_file(path: Path | str, parts: Iterable[bytes | memoryview]) -> None:
    """Write all parts to a temporary file, fsync it and give it its name; UserError where that is impossible.

    Files of run directories are written by ``store/files.py``, where tests make each system call fail.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name[:40]}.{secrets.token_hex(4)}.partial"
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "is a folder")
        try:
            with temporary.open("xb") as stream:
                stream.writelines(parts)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)  # only now does the new name survive a power failure
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose a file in a writable folder") from None
