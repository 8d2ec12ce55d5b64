"""Rows that were appended to a journal since the last time: only the new bytes are read, and their hash chain checked.

The last known line is read again with them. If it differs, or the chain does not continue, or the file is another one,
or shorter, or changed without being longer, then all of it is read and checked anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twoclocks.store import files
from twoclocks.store.checksums import DamagedError
from twoclocks.store.journal import Entry, Journal

Stamp = tuple[int, int, int]  # inode, size, time of the last change


def stamp_of(found: os.stat_result) -> Stamp:
    """What changes when a file is written or replaced."""
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class NewRows:
    """What one reading found."""

    rows: list[dict[str, Any]]
    restarted: bool  # the rows of earlier readings do not count any more


class Tail:
    """Follows one journal, which another process may write, truncate, replace or delete."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.stamp: Stamp | None = None
        self.last: Entry | None = None
        self.line = b""  # the bytes of the last row
        self.count = 0  # rows
        self.problem = ""  # what is wrong with the first row that is not intact
        self.bytes_read = 0

    @property
    def link(self) -> str:
        """The link of the last row."""
        return self.journal.start if self.last is None else self.last.link

    def read(self, whole: bool = False) -> NewRows:
        """The new rows; ``whole``: check all rows again, also where only their end seems to have changed."""
        try:
            if not whole and self.stamp is not None and stamp_of(self.journal.path.lstat()) == self.stamp:
                return NewRows([], False)
            with files.opened(self.journal.path, os.O_RDONLY) as descriptor:
                stamp = stamp_of(os.fstat(descriptor))
                new = None if whole or not self.may_continue(stamp) else self.continued(descriptor, stamp[1])
                if new is None:
                    new = self.anew(self.bytes_at(descriptor, 0, stamp[1]))
                self.stamp = stamp
                return new
        except FileNotFoundError:
            self.stamp = None
            return self.anew(b"")
        except OSError as error:
            self.stamp, self.problem = None, f"{self.journal.path}: {error.strerror or error}"
            return NewRows([], False)

    def may_continue(self, stamp: Stamp) -> bool:
        """Whether this may be the known file with more rows."""
        if self.stamp is None or self.last is None or self.problem:
            return False
        return stamp[0] == self.stamp[0] and stamp[1] > self.stamp[1]

    def continued(self, descriptor: int, size: int) -> NewRows | None:
        """The rows after the last known one; None where the file does not continue it."""
        assert self.last is not None
        begin = self.last.end - len(self.line)
        data = self.bytes_at(descriptor, begin, size)
        if not data.startswith(self.line):
            return None
        rest = data[len(self.line) :]
        try:
            entries = list(self.journal.decoded(rest, self.last, self.count))
        except DamagedError:
            return None  # rewritten since, or damaged: reading all of it tells
        return NewRows(self.keep(entries, data, begin), False)

    def anew(self, data: bytes) -> NewRows:
        """All rows of the file, whatever was known before."""
        known = self.count, self.link
        self.last, self.line, self.count, self.problem = None, b"", 0, ""
        entries: list[Entry] = []
        try:
            for entry in self.journal.decoded(data):
                entries.append(entry)
        except DamagedError as error:
            self.problem = str(error)
        rows = self.keep(entries, data, 0)
        same = (self.count, self.link) == known
        return NewRows([] if same else rows, restarted=not same)

    def keep(self, entries: Sequence[Entry], data: bytes, begin: int) -> list[dict[str, Any]]:
        """Remember the last of these rows and its line; ``data`` are the bytes of the file from ``begin`` on."""
        if entries:
            self.last, self.count = entries[-1], self.count + len(entries)
            end = self.last.end - begin
            self.line = data[data.rfind(b"\n", 0, end - 1) + 1 : end]
        return [entry.row for entry in entries]

    def bytes_at(self, descriptor: int, begin: int, end: int) -> bytes:
        """The bytes of an open file from ``begin`` to ``end``, fewer if it was truncated since."""
        parts, at = [], begin
        while at < end and (part := os.pread(descriptor, end - at, at)):
            parts.append(part)
            at += len(part)
        self.bytes_read += at - begin
        return b"".join(parts)
