"""A disk that is full from some file on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from twoclocks.store.files import Disk


class FullDisk(Disk):
    """Every write fails from the first file on whose path contains ``after``."""

    def __init__(self, after: str) -> None:
        self.after, self.full = after, False

    def open(self, path: Path, flags: int) -> int:
        self.full = self.full or self.after in str(path)
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, data)
