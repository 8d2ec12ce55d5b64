"""Run directories with curves that are known, for tests of whatever reads runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import to_mapping
from twoclocks.runs import Run, RunSettings, load_run
from twoclocks.store import RunDirectory


def write_run(path: Path, settings: RunSettings, columns: Mapping[str, Any], finished: bool = True) -> Run:
    """A real run directory whose evaluations have these columns; ``step`` and ``trials`` are filled in."""
    directory = RunDirectory.create(path, {"settings": to_mapping(settings), "metrics": [], "versions": {}})
    looks = len(next(iter(columns.values())))
    steps = np.array(settings.schedule[:looks], dtype=float)
    every = {"step": steps, "trials": np.full(looks, settings.evaluation.samples), **columns}
    for index in range(looks):
        directory.append_metrics({name: float(values[index]) for name, values in every.items()})
    if finished:
        directory.finish()
    return load_run(path)
