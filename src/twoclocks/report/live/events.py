"""What happened since the server started, numbered: a page that lost its connection asks for what it missed."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

MOST_KEPT = 4000  # events; a page that missed more loads its data anew


@dataclass(frozen=True)
class Event:
    number: int
    kind: str  # "run": a row of the table; "rows": points of curves, for the page of that run; "sweeps"
    run: str
    data: dict[str, Any]


class EventLog:
    """Events are appended by one thread; pages wait for them in the server's event loop."""

    def __init__(self) -> None:
        self.server = secrets.token_hex(4)  # ids of an earlier server mean nothing here
        self.events: deque[Event] = deque(maxlen=MOST_KEPT)
        self.last = 0
        self.lock = threading.Lock()
        self.changed = asyncio.Event()

    def append(self, kind: str, run: str, data: dict[str, Any]) -> None:
        with self.lock:
            self.last += 1
            self.events.append(Event(self.last, kind, run, data))

    def wake(self) -> None:
        """Let all pages that wait look again; called in the event loop."""
        self.changed.set()
        self.changed = asyncio.Event()

    def name(self, number: int) -> str:
        """The id of an event, as a browser sends it back."""
        return f"{self.server}-{number}"

    def number(self, name: str) -> int | None:
        """The inverse; None for an id of another server."""
        server, _, number = name.rpartition("-")
        return int(number) if server == self.server and number.isdecimal() and len(number) < 16 else None

    def after(self, number: int) -> list[Event] | None:
        """All events after this one; None where some of them are not kept any more."""
        with self.lock:
            oldest = self.events[0].number if self.events else self.last + 1
            if number + 1 < oldest or number > self.last:
                return None
            return [event for event in self.events if event.number > number]
