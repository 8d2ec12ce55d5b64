"""Runs with known curves, as committed rows: what criteria of claims and figures are tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import to_mapping
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import GPU, Scale
from twoclocks.runs.columns import STEP
from twoclocks.runs.rows import FORMAT, StoredRun, cell_label, encode, file_name

Curve = Sequence[float] | np.ndarray[Any, Any]


def simulated_run(
    folder: Path,
    preset: str,
    change: Mapping[str, Any],
    steps: Curve,
    columns: Mapping[str, Curve],
    trials: int = 2048,
    status: str = "finished",
    scale: Scale = GPU,
) -> StoredRun:
    """The rows of a run of a preset with these curves.

    ``columns``: proportions of samples by name, such as sample_accuracy, which are stored as counts; losses and Fréchet
    distances (names that begin with ``loss`` and ``frechet``) are stored as they are.
    """
    settings = scale.cell(preset, change).settings
    header = {
        **{"format": FORMAT, "label": cell_label(settings), "evaluations": len(steps), "status": status},
        **{"commit": "simulated", "versions": {}, "machine": {}, "metrics": [], "settings": None, "clocks": None},
    }
    header |= {"settings": to_mapping(settings), "derived": settings.derived()}
    stored: dict[str, list[Any]] = {STEP: [int(s) for s in steps], "trials": [trials] * len(steps)}
    for name, values in columns.items():
        if name.startswith(("loss", "frechet")):
            stored[name] = [float(value) for value in values]
        else:
            stored[f"{name}_hits"] = [round(float(value) * trials) for value in values]
            if name.startswith("extracted"):  # of prompts, which are not the samples
                stored[f"{name}_trials"] = [trials] * len(steps)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(settings)
    path.write_bytes(encode(header, stored))
    return StoredRun(path)


def rise(steps: Curve, at: float, sharpness: float = 8.0) -> np.ndarray[Any, Any]:
    """A curve that rises from 0 to 1 in ln(step), and is a half at the step ``at``."""
    return 1 / (1 + (at / np.maximum(np.asarray(steps, dtype=np.float64), 1e-9)) ** sharpness)


def log_steps(first: int, last: int, count: int = 60) -> list[int]:
    """Steps of evaluations, evenly spaced in the logarithm."""
    return sorted({round(step) for step in np.geomspace(first, last, count)})


def two_clocks_run(
    folder: Path,
    preset: str,
    change: Mapping[str, Any],
    rule: float,
    memory: float,
    last: int,
    **more: Any,
) -> StoredRun:
    """A run that learns the rule at one step and copies from another; an infinite step is never."""
    steps = log_steps(max(1, last // 2000), last)
    copied = rise(steps, memory) if np.isfinite(memory) else np.zeros(len(steps))
    valid = np.maximum(rise(steps, rule) if np.isfinite(rule) else np.zeros(len(steps)), copied)
    columns = {"sample_accuracy": valid, "sample_memorization": copied, "valid_new": valid - copied}
    return simulated_run(folder, preset, change, steps, columns, **more)


LATER, EARLIER = 9 ** (1 / 8), 9 ** (-1 / 8)  # a curve of ``rise`` reaches 0.9 and 0.1 at these factors of its middle


def clocks_run(
    folder: Path, preset: str, change: Mapping[str, Any], rule: float, memory: float, last: int, **more: Any
) -> StoredRun:
    """A run whose printed clocks are at these steps: nine of ten samples valid, one of ten a copy."""
    return two_clocks_run(folder, preset, change, rule / LATER, memory / EARLIER, last, **more)


def records(runs: Sequence[StoredRun]) -> Records:
    return Records(Record(run) for run in runs)
