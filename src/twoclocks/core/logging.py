"""Log messages of the package as lines on stderr."""

from __future__ import annotations

import contextlib
import logging
import sys

from twoclocks.core.text import one_line


def log_to_stderr() -> None:
    """Write the log messages of the package to stderr, one line each."""
    log = logging.getLogger("twoclocks")
    log.setLevel(logging.INFO)
    log.handlers, log.propagate = [_StderrHandler()], False


class _StderrHandler(logging.Handler):
    """Looks up ``sys.stderr`` for every line, because a progress display replaces it while it runs."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stderr is no reason to stop
            sys.stderr.write(one_line(f"twoclocks: {record.getMessage()}") + "\n")
            sys.stderr.flush()
