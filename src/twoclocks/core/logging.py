"""What the package has to say while it works, as lines on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys


def log_to_stderr() -> None:
    """What the package has to say while it works goes to stderr, one line each."""
    log = logging.getLogger("twoclocks")
    log.setLevel(logging.INFO)
    log.handlers, log.propagate = [StderrHandler()], False


class StderrHandler(logging.Handler):
    """Looks stderr up at every line: a progress display may have put its own in the place."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody there to read it is no reason to stop
            sys.stderr.write(f"twoclocks: {record.getMessage()}\n")
            sys.stderr.flush()
