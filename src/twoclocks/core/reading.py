"""Files that the user names, read whole: regular files of a bounded size, and never anything that could block."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.core.text import show


def read_file(path: Path | str, most: int, field: str = "", fix: str = "check the path") -> bytes:
    """The bytes of a regular file of at most ``most`` bytes; links are followed, since the user chose the path.

    A pipe, a device or a socket is refused without waiting for it. ``field`` is the setting or the option that names
    the file, for error messages.
    """
    named = f"{field}: {show(str(path))}" if field else f"{path}:"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UserError(f"{named} cannot be read (it is not a regular file); {fix}")
            data = _read(descriptor, most + 1) if found.st_size <= most else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserError(f"{named} cannot be read ({error.strerror}); {fix}") from None
    except UserError:
        raise
    except ValueError:  # a NUL character
        raise UserError(f"{named} cannot be read (no file can have this name); {fix}") from None
    if found.st_size > most or len(data) > most:  # it may have grown since
        raise UserError(f"{named} has {found.st_size:,} bytes; use a file of at most {most:,} bytes")
    return data


def _read(descriptor: int, most: int) -> bytes:
    """Up to ``most`` bytes."""
    parts, left = [], most
    while left and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
