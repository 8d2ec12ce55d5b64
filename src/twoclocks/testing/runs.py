"""Write run directories with given curves, for tests of code that reads runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import to_mapping
from twoclocks.runs import Run, RunSettings, load_run
from twoclocks.runs.columns import counts_samples
from twoclocks.store import RunDirectory


def write_run(path: Path, settings: RunSettings, columns: Mapping[str, Any], finished: bool = True) -> Run:
    """Write a run directory whose evaluations have these columns, and load it; ``step`` and ``trials`` are added.

    Proportions of samples are rounded to counts, as a real evaluation has them.
    """
    directory = RunDirectory.create(path, {"settings": to_mapping(settings), "metrics": [], "versions": {}})
    evaluations = len(next(iter(columns.values())))
    steps = np.array(settings.schedule[:evaluations], dtype=float)
    samples = settings.evaluation.samples
    complete = {"step": steps, "trials": np.full(evaluations, samples), **columns}
    for name in filter(counts_samples, columns):
        complete[name] = np.rint(np.asarray(columns[name]) * samples) / samples  # the proportion of a count
    for index in range(evaluations):
        directory.append_metrics({name: float(values[index]) for name, values in complete.items()})
    directory.finish() if finished else directory.set_status("running")
    return load_run(path)
