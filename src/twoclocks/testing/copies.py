"""Write thousands of finished runs from one real run, for tests and benchmarks of code that reads many runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from twoclocks.core.config import to_mapping
from twoclocks.core.counts import TRIALS, hits_key
from twoclocks.core.seeds import derive
from twoclocks.runs import Run, RunSettings
from twoclocks.runs.columns import STEP, clock_columns
from twoclocks.store import RunDirectory, files
from twoclocks.store.artifacts import KINDS

SCATTER = 0.3  # standard deviation of ln τ between seeds
STEPS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64)
SMALL = {  # settings of a run that trains in a second, and has onsets within its steps for N from 4 to 24
    "rule": {"length": 36, "group": 2},
    "training": {"steps": STEPS[-1], "batch": 4, "threads": 1},
    "model": {"width": 8, "depth": 1, "heads": 1},
    "evaluation": {"samples": 200, "steps": list(STEPS), "loss_rows": 8, "keep_samples": 4, "keep_weights": 0},
    "clocks": {"sustain": 2},
}
SIZES = (4, 8, 12, 16, 24)


def write_copies(template: Run, places: Iterable[tuple[Path, RunSettings]]) -> None:
    """Write one finished run per path, with these settings, and the samples, timings and tensors of the template.

    The settings must have the template's schedule. Every checksum is that of a real run. Valid samples and copies
    follow curves whose onsets grow with N and differ between seeds, so that laws and phases can be read from them.
    """
    rows, tensors = template.directory.journal.rows(), template.directory.read_checkpoint().tensors
    stored = {
        (kind, row[STEP]): template.directory.artifacts[kind].path(row[STEP]).read_bytes()
        for kind in KINDS
        for row in rows
        if kind in row
    }
    timings, status = template.directory.timings.rows(), template.status
    ended = {key: status[key] for key in ("seconds", "attempts") if key in status}
    with without_sync():
        for path, settings in places:
            same = {"settings": to_mapping(settings), "origin": settings.digest(), "derived": settings.derived()}
            directory = RunDirectory.create(path, {**template.manifest, **same})
            for number, (row, changed) in enumerate(zip(rows, with_curves(rows, settings), strict=True)):
                written = {k: directory.artifacts[k].put(row[STEP], stored[k, row[STEP]]) for k in KINDS if k in row}
                directory.append_metrics(changed, written)
                if number >= len(rows) - 2:  # a run keeps its last two checkpoints
                    directory.write_checkpoint(row[STEP], tensors)
            for row in timings:
                directory.timings.append(row)
            directory.finish(**ended)


def with_curves(rows: list[dict[str, Any]], settings: RunSettings) -> Iterator[dict[str, Any]]:
    """The rows with other counts of valid samples and of copies; artifacts are left out."""
    columns = clock_columns(())
    seed = derive(settings.training.seed, f"curves {settings.data.seed} {settings.data.n}")
    shift = math.exp(SCATTER * float(np.random.default_rng(seed).normal()))
    onsets = {columns.valid: 0.05 * settings.training.steps * shift, columns.copied: 2.0 * settings.data.n * shift}
    for row in rows:
        hits = {hits_key(name): round(row[TRIALS] * rising(row[STEP] / onset)) for name, onset in onsets.items()}
        yield {key: value for key, value in {**row, **hits}.items() if key not in KINDS}


def rising(ratio: float) -> float:
    """A proportion that rises from 0 to 1, steeply around a ratio of 1."""
    return ratio**6 / (1 + ratio**6)


@contextmanager
def without_sync() -> Iterator[None]:
    """Write without waiting for the disk: copies of a run need not survive a power failure."""
    before = files.disk
    files.disk = UnsyncedDisk()
    try:
        yield
    finally:
        files.disk = before


class UnsyncedDisk(files.Disk):
    """A disk whose writes are complete for other processes, but may be lost with the power."""

    def sync(self, descriptor: int) -> None:
        """Wait for nothing."""
