"""What analyses of many runs need of each: thousands of runs fit into memory, and each is read once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from twoclocks.clocks.series import Series
from twoclocks.clocks.window import Clocks
from twoclocks.core.config import to_mapping
from twoclocks.evaluation.metric import Column
from twoclocks.runs.columns import Weights
from twoclocks.runs.load import Run, RunReading
from twoclocks.runs.settings import RunSettings

KEPT = ("derived", "origin", "created", "commit", "forked_from", "imports")  # of the manifest


@dataclass(frozen=True)
class Digest:
    """The numbers of a run without its rows, samples and weights."""

    manifest: dict[str, Any]  # the entries in ``KEPT``
    settings: RunSettings
    status: dict[str, Any]
    unproven_end: str
    series: Series
    clocks: Clocks  # without change points


@dataclass(frozen=True)
class RunDigest(Run):
    """A run whose settings, status, counts and clocks were read once; all else is read when it is asked for."""

    digest: Digest

    @property
    def manifest(self) -> dict[str, Any]:
        return {**self.digest.manifest, "settings": self.stored_settings}

    @property
    def is_evaluated(self) -> bool:
        return True

    @property
    def settings(self) -> RunSettings:
        return self.digest.settings

    @property
    def stored_settings(self) -> dict[str, Any]:
        found: dict[str, Any] = to_mapping(self.digest.settings)
        return found

    @property
    def derived(self) -> dict[str, Any]:
        found: dict[str, Any] = self.digest.manifest["derived"]
        return found

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.digest.status)

    @property
    def unproven_end(self) -> str:
        return self.digest.unproven_end

    def metric(self, name: str) -> Column:
        return Run(self.path).metric(name)

    def series(self, weights: Weights = "raw") -> Series:
        return self.digest.series if weights == "raw" else Run(self.path).series(weights)

    def clocks(self, changes: bool = True, weights: Weights = "raw") -> Clocks:
        return Run(self.path).clocks(changes, weights) if changes or weights != "raw" else self.digest.clocks


def digest_run(run: Run) -> RunDigest:
    """Read a run; UserError if its settings or its evaluations cannot be read."""
    reading = RunReading(run.path)
    manifest = {key: reading.manifest[key] for key in KEPT if key in reading.manifest} | {"derived": reading.derived}
    settings = reading.settings
    for item in fields(settings):
        object.__setattr__(settings, item.name, shared(getattr(settings, item.name)))
    status = {key: value for key, value in reading.status.items() if key != "attempts"}
    clocks = Run.clocks(reading, changes=False)
    kept = Digest(manifest, settings, status, reading.unproven_end, compact(reading.series()), clocks)
    return RunDigest(run.path, kept)


def shared(section: Any) -> Any:
    """An equal section of an earlier run, if there is one: most runs of a sweep differ in one or two sections."""
    try:
        return _first_equal(section)
    except TypeError:  # a component of the user with a value that cannot be hashed
        return section


@lru_cache(maxsize=4096)
def _first_equal(section: Any) -> Any:
    return section


def compact(series: Series) -> Series:
    """The same counts as arrays, which take a quarter of the memory of lists."""
    columns: dict[str, Any] = {
        item.name: np.asarray(value, dtype=np.float64)
        for item in fields(series)
        if isinstance(value := getattr(series, item.name), list)
    }
    parts = {kind: np.asarray(hits, dtype=np.float64) for kind, hits in (series.parts or {}).items()}
    return replace(series, **columns, parts=parts)
