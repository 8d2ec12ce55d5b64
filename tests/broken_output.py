"""Standard output on which text cannot be written, or not as it is."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest


@contextmanager
def broken_output(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    """Standard output of a kind on which text cannot be written, or not as it is; gives what was written."""
    written = io.BytesIO()
    stream: TextIO | None
    if kind == "closed":
        stream = None
    elif kind == "full":
        stream = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115
    elif kind == "nobody reads":
        reading, writing = os.pipe()
        os.close(reading)
        stream = os.fdopen(writing, "w", encoding="utf-8")
    else:
        stream = io.TextIOWrapper(written, encoding=kind)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        yield written
        if stream is not None and kind in ("latin-1", "ascii"):
            stream.flush()
            stream.detach()  # type: ignore[attr-defined]
        elif stream is not None:
            stream.close()  # what was buffered does not fail again


KINDS = {"closed": 0, "full": 5, "nobody reads": 0, "latin-1": 0, "ascii": 0}  # with the exit code
