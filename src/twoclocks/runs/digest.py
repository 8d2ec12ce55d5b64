"""What analyses of many runs need of each: thousands of runs fit into memory, and each is read once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from twoclocks.clocks.series import Series
from twoclocks.clocks.window import Clocks
from twoclocks.runs.load import Run, RunReading
from twoclocks.runs.settings import RunSettings

KEPT = ("settings", "derived", "origin", "created", "commit", "forked_from", "imports")  # of the manifest


@dataclass(frozen=True)
class Digest:
    """The numbers of a run without its rows, samples and weights."""

    manifest: dict[str, Any]  # the entries in ``KEPT``
    settings: RunSettings
    status: dict[str, Any]
    series: Series
    clocks: Clocks  # without change points


@dataclass(frozen=True)
class RunDigest(Run):
    """A run whose settings, status, counts and clocks were read once; all else is read when it is asked for."""

    digest: Digest

    @property
    def manifest(self) -> dict[str, Any]:
        return self.digest.manifest

    @property
    def settings(self) -> RunSettings:
        return self.digest.settings

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.digest.status)

    def series(self) -> Series:
        return self.digest.series

    def clocks(self, changes: bool = True) -> Clocks:
        return Run(self.path).clocks() if changes else self.digest.clocks


def digest_run(run: Run) -> RunDigest:
    """Read a run; UserError if its settings or its evaluations cannot be read."""
    reading = RunReading(run.path)
    manifest = {key: reading.manifest[key] for key in KEPT if key in reading.manifest}
    clocks = Run.clocks(reading, changes=False)
    status = {key: value for key, value in reading.status.items() if key != "attempts"}
    return RunDigest(run.path, Digest(manifest, reading.settings, status, compact(reading.series()), clocks))


def compact(series: Series) -> Series:
    """The same counts as arrays, which take a quarter of the memory of lists."""
    columns: dict[str, Any] = {
        item.name: np.asarray(value, dtype=np.float64)
        for item in fields(series)
        if isinstance(value := getattr(series, item.name), list)
    }
    parts = {kind: np.asarray(hits, dtype=np.float64) for kind, hits in (series.parts or {}).items()}
    return replace(series, **columns, parts=parts)
