"""Files that the user names: regular files, read whole up to a bounded size, and never anything that could block."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from twoclocks.core.errors import UserError
from twoclocks.core.text import show


def read_file(path: Path | str, most: int, field: str = "", fix: str = "check the path") -> bytes:
    """The bytes of a regular file of at most ``most`` bytes; links are followed, since the user chose the path.

    A pipe, a device or a socket is refused without waiting for it. ``field`` is the setting or the option that names
    the file, for error messages.
    """
    named = _named(path, field)
    with open_file(path, field, fix) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            data = _read(stream.fileno(), most + 1) if size <= most else b""
        except OSError as error:
            raise UserError(f"{named} cannot be read ({error.strerror}); {fix}") from None
    if size > most or len(data) > most:  # it may have grown since
        raise UserError(f"{named} has {size:,} bytes; use a file of at most {most:,} bytes")
    return data


def open_file(path: Path | str, field: str = "", fix: str = "check the path") -> IO[bytes]:
    """A regular file, open for reading; the same errors as those of ``read_file``."""
    named = _named(path, field)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"{named} cannot be read ({error.strerror}); {fix}") from None
    except ValueError:  # a NUL character
        raise UserError(f"{named} cannot be read (no file can have this name); {fix}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{named} cannot be read (it is not a regular file); {fix}")
    return os.fdopen(descriptor, "rb")


def _named(path: Path | str, field: str) -> str:
    return f"{field}: {show(str(path))}" if field else f"{path}:"


def _read(descriptor: int, most: int) -> bytes:
    """Up to ``most`` bytes."""
    parts, left = [], most
    while left and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
