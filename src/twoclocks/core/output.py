"""Standard output and error of a command: what cannot be written is no reason to stop, or to lose a result.

A command may train for hours before it prints. By then the terminal may be closed, the reader of a pipe gone or the
disk behind a redirection full; and the encoding may lack τ. Here, writing never raises: text that the encoding lacks
falls back to ASCII, and a failed write is remembered, so that the command can say so at its end.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from twoclocks.core.text import encodable


class GuardedStream:
    """A text stream whose writes never raise; after the first that fails (``error``) nothing is written any more."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.error: Exception | None = None

    def write(self, text: str) -> int:
        if self.error is None:
            with self.failures_remembered():
                self.stream.write(encodable(text, getattr(self.stream, "encoding", None)))
        return len(text)

    def flush(self) -> None:
        if self.error is None:
            with self.failures_remembered():
                self.stream.flush()

    @contextlib.contextmanager
    def failures_remembered(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: it was closed
            self.error = error
            with contextlib.suppress(OSError, ValueError):  # what is buffered must not fail again when the process ends
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self.stream.fileno())
                os.close(null)

    @property
    def lost(self) -> OSError | None:
        """Why output was lost; a pipe that its reader closed (``| head``) has lost nothing that anybody wanted."""
        return self.error if isinstance(self.error, OSError) and not isinstance(self.error, BrokenPipeError) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def guarded_output() -> Iterator[GuardedStream]:
    """Guard ``sys.stdout`` and ``sys.stderr`` until the end of the block; gives the guard of ``sys.stdout``."""
    open_standard_streams()
    before = sys.stdout, sys.stderr
    guards = [GuardedStream(stream) for stream in before]
    sys.stdout, sys.stderr = (cast(TextIO, guard) for guard in guards)
    try:
        yield guards[0]
    finally:
        for guard in guards:
            guard.flush()
        sys.stdout, sys.stderr = before


def open_standard_streams() -> None:
    """Open the null device in the place of standard streams that were closed (``>&-``).

    Otherwise the next file that is opened, such as a checkpoint, would get their number, and whatever else writes to
    standard output would write into it.
    """
    if sys.stdin is not None and sys.stdout is not None and sys.stderr is not None:
        return
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(null, True)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
