"""SIGTERM, SIGHUP and Ctrl-C as requests: a run stops between two steps or inside an evaluation, and loses nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StoppedError(KeyboardInterrupt):
    """The run was asked to stop. Not an ``Exception``: like Ctrl-C, it should pass through code that mends errors."""

    def __init__(self, by: str, step: int | None = None) -> None:
        self.by, self.step = by, step
        super().__init__(f"stopped by {by}" + ("" if step is None else f" at step {step}"))


class StopRequest:
    """Hears the signals while it is entered. A second one ends the process as it would have without us.

    Handlers can be set in the main thread alone; elsewhere nothing is heard, and nothing changes. Who started the
    process may have asked it to ignore a signal, as ``nohup`` does; that is left so.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)  # SIGHUP: the terminal was closed

    def __init__(self) -> None:
        self.by: str | None = None  # the signal that was heard
        self._at_once = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in self.SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self.by = signal.Signals(number).name
        if self._at_once:
            raise StoppedError(self.by)

    def check(self) -> None:
        if self.by is not None:
            raise StoppedError(self.by)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """A stretch that changes nothing, which a signal may therefore leave in the middle."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False
