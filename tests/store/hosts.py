"""Machines that share a disk on which flock does not reach from one to the other, simulated on this one.

Each has a name, a clock that is minutes off, and a byte of the file of its own: a lock on it, unlike flock, ends in
the same way (with the open file), and excludes only those who ask for the same byte.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from types import SimpleNamespace

UTIME = os.utime


@dataclass(frozen=True)
class Host:
    name: str
    byte: int
    clock: float = 0.0  # seconds that its clock is ahead
    boot: str = "boot"
    flock: bool = True  # whether the disk has locks at all
    shared: bool = True  # whether the disk looks like one that several machines see

    def lock(self, descriptor: int, operation: int) -> None:
        """In place of ``fcntl.flock``."""
        if not self.flock:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        kind = fcntl.F_WRLCK if operation & fcntl.LOCK_EX else fcntl.F_RDLCK
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 1000 + self.byte, 1, 0))

    def touch(self, descriptor: int, now: float) -> None:
        """In place of ``os.utime``: the time is that of this host's clock."""
        UTIME(descriptor, (now + self.clock, now + self.clock))

    def fcntl(self) -> SimpleNamespace:
        """In place of the module ``fcntl``."""
        return SimpleNamespace(**{**vars(fcntl), "flock": self.lock})
