"""Rows that outlive the directory of a run: one small JSON lines file per run, read back as a run.

The first line has settings, commit, machine, status and clocks; every other line is one column of the metrics over all
evaluations (counts, as the run directory stores them). Without weights and samples, a run of 80 evaluations is 15 kB.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from twoclocks.core.config import machine_settings, to_mapping
from twoclocks.core.counts import HITS_SUFFIX, TRIALS, TRIALS_SUFFIX
from twoclocks.core.errors import UserError
from twoclocks.core.text import show
from twoclocks.evaluation.quantization import Invalid
from twoclocks.runs.columns import STEP
from twoclocks.runs.load import DONE, Run, RunReading
from twoclocks.runs.settings import RunSettings
from twoclocks.store.checksums import without_labels
from twoclocks.store.files import read, write_atomic
from twoclocks.training.loop import TrainingSettings

FORMAT = 1
DIGEST = re.compile("[0-9a-f]{64}")  # SHA-256
SUFFIX = ".jsonl"
# Columns that no figure or claim reads, and that would double the size.
LEFT_OUT = tuple(Invalid.column(threshold) for threshold in (0.1, 0.2))
STATUS = ("status", "stopped_at", "reason", "seconds")
NUMBER = (int, float, type(None))


def identity(settings: RunSettings) -> str:
    """What is trained: SHA-256 of rule, data, network, objective and training, without length, machine and labels.

    What counts as a copy belongs to it: a run is not the longer version of one with another criterion.
    Two runs of the same identity have the same curves up to rounding; they may be evaluated at other steps.
    """
    mapping = without_labels(to_mapping(settings))
    mapping = {key: value for key, value in mapping.items() if key not in ("evaluation", "clocks")}
    free = machine_settings(TrainingSettings) | {"steps", "average"}  # an average changes nothing in training
    mapping["training"] = {key: value for key, value in mapping["training"].items() if key not in free}
    mapping["noise"] = settings.evaluation.seed
    mapping["copies"] = [settings.evaluation.copy_ratio, settings.evaluation.copy_run]
    return hashlib.sha256(json.dumps(mapping, sort_keys=True).encode()).hexdigest()


def file_name(settings: RunSettings) -> str:
    """Such as ``p1-gpt-mini.parity-36-3.n512.seed0-1a2b3c4d.jsonl``: readable, and unique by the settings' digest."""
    return f"{cell_label(settings)}-{settings.key()[:8]}{SUFFIX}"


def cell_label(settings: RunSettings) -> str:
    """Preset, rule, number of samples and seed of a run; of the digest of a data file, its first eight digits."""
    values = [value for value in to_mapping(settings)["rule"].values() if value is not None]
    words = ["x".join(map(str, value)) if isinstance(value, list) else str(value) for value in values]
    words = [word[:8] if DIGEST.fullmatch(word) else word for word in words]
    return f"{settings.name}.{'-'.join(words)}.n{settings.data.n}.seed{settings.training.seed}"


def write_rows(run: Run, folder: Path) -> Path:
    """Write the rows of a finished run; returns the file."""
    rows, manifest, status = run.rows(), run.manifest, run.status
    header = {
        "format": FORMAT,
        "label": cell_label(run.settings),
        **{key: manifest[key] for key in ("commit", "versions", "machine", "metrics")},
        **{key: status.get(key) for key in STATUS},
        "step_seconds": run.step_seconds,
        **({"together": True} if run.was_together else {}),
        "evaluations": len(rows),
        "clocks": run.clocks().as_json(),
        "derived": run.derived,
        "settings": run.stored_settings,
    }
    columns = {name: [plain(name, row.get(name)) for row in rows] for name in column_names(rows)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(run.settings)
    write_atomic(path, encode(header, columns))
    return path


def column_names(rows: list[dict[str, float]]) -> list[str]:
    """The stored columns of the rows, without those that nothing reads."""
    names = dict.fromkeys(key for row in rows for key in row)
    return [name for name in names if not name.startswith(LEFT_OUT)]


def encode(header: Mapping[str, Any], columns: Mapping[str, list[Any]]) -> bytes:
    """Lines of a file: the header, then one line per column."""
    lines = [
        {**header, "columns": [*columns]},
        *({"column": name, "values": values} for name, values in columns.items()),
    ]
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode()


def plain(name: str, value: float | None) -> float | int | None:
    """A value as it is stored: counts are integers; what is not finite is None."""
    if value is None or not math.isfinite(value):
        return None
    whole = name in ("step", TRIALS) or name.endswith((HITS_SUFFIX, TRIALS_SUFFIX))
    return int(value) if whole else float(value)


@dataclass(frozen=True)
class StoredRun(RunReading):
    """A run that consists of its committed rows; everything that reads clocks and curves reads it like any run."""

    @cached_property
    def lines(self) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """Header and columns; UserError if the file is incomplete."""
        try:
            header, *rest = [json.loads(line) for line in read(self.path).decode().splitlines()]
            columns = {line["column"]: line["values"] for line in rest}
            complete = header["format"] == FORMAT and [*columns] == header["columns"] and STEP in columns
            complete = complete and {len(values) for values in columns.values()} == {header["evaluations"]}
            numbers = all(isinstance(value, NUMBER) for values in columns.values() for value in values)
            known = isinstance(header["settings"], dict) and isinstance(header["derived"], dict)
            status = header["status"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.path}: holds no rows of a run ({show(error)}); restore the file") from None
        if not (complete and numbers and known):
            raise UserError(f"{self.path}: is incomplete, or of another format than {FORMAT}; restore the file")
        if status not in DONE:
            raise UserError(f"{self.path}: its run has not ended ({show(status)}); finish it and write its rows again")
        return header, columns

    @cached_property
    def settings(self) -> RunSettings:
        try:
            return super().settings
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from None

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return self.lines[0]

    @property
    def status(self) -> dict[str, Any]:
        return {key: self.lines[0].get(key) for key in STATUS}

    @property
    def unproven_end(self) -> str:
        return ""

    @property
    def step_seconds(self) -> float:
        found = self.lines[0].get("step_seconds")
        if found is None:
            raise UserError(f"{self.path}: its rows do not say how long a step took; write them again from the run")
        return float(found)

    @property
    def was_together(self) -> bool:
        return bool(self.lines[0].get("together"))

    @property
    def is_evaluated(self) -> bool:
        return bool(self.lines[0]["evaluations"])

    @property
    def label(self) -> str:
        return str(self.lines[0]["label"])

    def rows(self) -> list[dict[str, float]]:
        columns = self.lines[1]
        rows = zip(*columns.values(), strict=True)
        return [{name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in rows]


def read_rows(folder: Path) -> Iterator[StoredRun]:
    """All runs whose rows lie in a folder, in order of their names."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        yield StoredRun(path)
