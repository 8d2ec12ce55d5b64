"""Measurements of views with known answers, committed beside simulated rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twoclocks.core.config import build
from twoclocks.dissection.view import VIEWS
from twoclocks.papers.views import CONSTANT, MEASURED, encode_view, view_file
from twoclocks.runs.rows import StoredRun


def write_view(
    run: StoredRun,
    name: str,
    steps: Sequence[int],
    measured: Mapping[str, Any],
    constants: Mapping[str, Any] | None = None,
    **settings: Any,
) -> StoredRun:
    """Write what a view would have measured on a run; returns the run."""
    arrays = {MEASURED + key: np.ascontiguousarray(value) for key, value in measured.items()}
    arrays |= {CONSTANT + key: np.ascontiguousarray(value) for key, value in (constants or {}).items()}
    view = build(VIEWS.get(name), settings, name)
    view_file(run.path, name).write_bytes(encode_view(name, view, steps, arrays))
    return run


def with_header(run: StoredRun, **change: Any) -> StoredRun:
    """The same rows with another header, such as other ``metrics``."""
    first, rest = run.path.read_text().split("\n", 1)
    run.path.write_text(json.dumps({**json.loads(first), **change}) + "\n" + rest)
    return StoredRun(run.path)
