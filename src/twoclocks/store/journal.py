"""Rows that are only ever appended, one per step, each linked to all rows before it."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from twoclocks.store import files
from twoclocks.store.checksums import START, DamagedError, decode_line, encode_line, require

LAST_STEP = 1 << 62  # the integers of tables have 64 bits


@dataclass(frozen=True, slots=True)
class Entry:
    row: dict[str, Any]
    link: str  # names this row and all before it
    end: int  # bytes of the file up to and with this row


class Journal:
    """One file of lines with checksums; a last line that a crash cut short is left out, and removed before the next."""

    def __init__(
        self,
        path: Path,
        start: str = START,
        guard: files.Guard = files.unguarded,
        numbers: Collection[str] = ("step",),
        texts: Collection[str] = (),
        foreign: Collection[str] = (),
    ) -> None:
        """``numbers``: columns that every row has; ``texts``: columns of text. All others are numbers or null.

        ``foreign``: columns of another journal of the same run, whose rows have the same first link.
        """
        self.path, self.start, self.guard = path, start, guard
        self.needed, self.texts = dict.fromkeys(numbers, (int, float)), frozenset(texts)
        self.foreign = frozenset(foreign)
        self.last: Entry | None = None  # of a journal that is being written

    def scan(self) -> Iterator[Entry]:
        """The intact rows from the start, one by one; DamagedError says what is wrong with the first that is not."""
        if os.path.lexists(self.path):
            yield from self.decoded(files.read(self.path))

    def decoded(self, data: bytes, after: Entry | None = None, number: int = 0) -> Iterator[Entry]:
        """The rows in the bytes of the file that follow the row ``after``, which is line ``number``; else in all.

        A last line without its end is left out. DamagedError says what is wrong with the first row that is not intact.
        """
        link, begin, step = (self.start, 0, -math.inf) if after is None else (after.link, after.end, after.row["step"])
        end = 0
        while stop := data.find(b"\n", end) + 1:
            number += 1
            try:
                row, link = decode_line(data[end:stop], link)
                self.check_types(row)
                if row["step"] <= step:
                    raise DamagedError("its step is not after the one before")
            except DamagedError as error:
                raise DamagedError(f"{self.path}: line {number} is damaged ({error})") from None
            end, step = stop, row["step"]
            yield Entry({sys.intern(key): value for key, value in row.items()}, link, begin + end)  # rows share keys

    def entries(self) -> tuple[list[Entry], str | None]:
        """All intact rows from the start, and what is wrong with the first one that is not."""
        found: list[Entry] = []
        try:
            for entry in self.scan():
                found.append(entry)
        except DamagedError as error:
            return found, str(error)
        return found, None

    def check_types(self, row: Mapping[str, Any]) -> None:
        """DamagedError where a row has a right SHA-256 and cannot be a row of this journal."""
        require(row, self.needed)
        if self.foreign & row.keys():
            raise DamagedError("it is a row of another file")
        if not -1 < row["step"] < LAST_STEP:
            raise DamagedError("its step is out of range")
        for name, value in row.items():
            if value is not None and not isinstance(value, str if name in self.texts else (int, float)):
                raise DamagedError(f"its column {name!r} is of type {type(value).__name__}")

    def sound(self) -> list[Entry]:
        """All rows with their links; damage is an error."""
        found, problem = self.entries()
        if problem is not None:
            raise DamagedError(f"{problem}; restore the file, or run again to compute it again")
        return found

    def rows(self) -> list[dict[str, Any]]:
        return [entry.row for entry in self.sound()]

    def link_of(self, entries: Sequence[Entry]) -> str:
        """The link of the last of some rows."""
        return entries[-1].link if entries else self.start

    def begin(self, count: int) -> None:
        """Keep the first ``count`` rows, which must be intact, and get ready to append after them."""
        self.last = None
        for entry in islice(self.scan(), count):  # one at a time: a long run has many
            self.last = entry
        if self.path.exists() and self.path.stat().st_size != self.end:
            files.truncate(self.path, self.end, self.guard)

    def append(self, row: Mapping[str, Any]) -> None:
        """One row, on disk before this returns; ``begin`` comes first."""
        if self.last is not None and row["step"] <= self.last.row["step"]:
            raise ValueError(f"{self.path}: step {row['step']} is not after step {self.last.row['step']}")
        line, link = encode_line(dict(row), self.link)
        files.append(self.path, line, self.end, self.guard)
        self.last = Entry(dict(row), link, self.end + len(line))

    @property
    def link(self) -> str:
        return self.start if self.last is None else self.last.link

    @property
    def end(self) -> int:
        return 0 if self.last is None else self.last.end

    @property
    def last_step(self) -> int:
        """Step of the last row; -1 before the first."""
        return -1 if self.last is None else int(self.last.row["step"])


class ReadOnceJournal(Journal):
    """A journal that reads its file at the first use and never again; nothing can be appended."""

    @cached_property
    def known(self) -> tuple[list[Entry], str | None]:
        return super().entries()

    def entries(self) -> tuple[list[Entry], str | None]:
        return self.known

    def begin(self, count: int) -> None:
        raise TypeError(f"{self.path}: was opened for reading only")

    def append(self, row: Mapping[str, Any]) -> None:
        raise TypeError(f"{self.path}: was opened for reading only")
