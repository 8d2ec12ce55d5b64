"""The status of a cell, read from its run directory: a sweep stores no state that could disagree with its runs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from twoclocks.clocks.window import Clocks
from twoclocks.core.config import flat, to_mapping
from twoclocks.core.counts import values_of
from twoclocks.core.errors import UserError
from twoclocks.runs.columns import SUMMARY
from twoclocks.runs.load import DONE, Run, RunReading
from twoclocks.store.files import opened
from twoclocks.store.lock import is_held
from twoclocks.store.run_directory import RunDirectory
from twoclocks.sweeps.grid import Cell

State = Literal["waiting", "running", "unfinished", "finished", "diverged", "failed"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class CellStatus:
    state: State
    step: int = 0
    reason: str = ""


def cell_path(root: Path, cell: Cell) -> Path:
    return root / "cells" / cell.key


def cell_status(path: Path) -> CellStatus:
    """The status of a cell from its run directory."""
    try:
        directory = RunDirectory(path)
        if not directory.begun:
            return CellStatus("running" if is_held(path) else "waiting")
        status = directory.status()
    except UserError as error:
        return CellStatus("failed", reason=str(error))
    word, reason = status["status"], status.get("reason", status.get("problem", ""))
    if word in DONE:
        return CellStatus(word, last_step(path), reason)
    if is_held(path):
        return CellStatus("running", last_step(path))
    return CellStatus("failed" if word == "failed" else "unfinished", last_step(path), reason)


def last_step(path: Path) -> int:
    """The step of the last evaluation, from the end of a file that may still be written."""
    try:
        with opened(path / "timings.jsonl", os.O_RDONLY) as descriptor:
            lines = os.pread(descriptor, 1024, max(0, os.fstat(descriptor).st_size - 1024)).split(b"\n")
        return int(json.loads(lines[-2])["step"])
    except (OSError, ValueError, IndexError, KeyError, TypeError, OverflowError, RecursionError):
        return 0  # it is only shown: whatever is wrong there, verify names it


def read_clocks(run: Path | RunReading, changes: bool) -> Clocks:
    """The clocks of a finished cell; change points, which tables do not show, take as long as all the rest."""
    reading = RunReading(run) if isinstance(run, Path) else run
    return Run.clocks(reading, changes)


def cell_row(root: Path, cell: Cell, found: CellStatus) -> dict[str, Any]:
    """One row of the table: the status of the cell, its clocks as intervals, and all its settings."""
    path = cell_path(root, cell)
    row: dict[str, Any] = {"cell": cell.key, **vars(found)}
    run = RunReading(path)
    clocks: Clocks | None = None
    last: dict[str, float] = {}
    try:
        if found.state in DONE:
            clocks, last = read_clocks(run, changes=False), values_of(run.rows()[-1])
            row["step"] = int(last["step"])  # the status has it from timings, which may be damaged
    except UserError as error:  # damaged, or diverged before the first evaluation
        row["reason"] = str(error)
    onsets = {"tau_rule": clocks and clocks.rule, "tau_mem": clocks and clocks.memory, "tau_gap": clocks and clocks.gap}
    for name, onset in onsets.items():
        row[f"{name}_lower"] = onset.lower if onset else None
        row[f"{name}_upper"] = onset.upper if onset and onset.status != "right-censored" else None
        row[f"{name}_status"] = onset.status if onset else None
        row[f"{name}_first_crossing"] = onset.first_crossing if onset else None
        row[f"{name}_interpolated"] = onset.interpolated if onset else None
    window = clocks.window if clocks else None
    row["verdict"] = clocks.verdict if clocks else None
    row["suspected"] = clocks.suspected if clocks else None
    row["window_begin"] = window[0] if window else None
    row["window_end"] = window[1] if window and window[1] != float("inf") else None
    settings = cell.settings
    row["copy_chance"], row["validity_chance"] = settings.rule.copy_chance(settings.data.n), settings.rule.chance()
    row |= {f"last_{name}": float(last[name]) if name in last else None for name in SUMMARY}
    row["seconds"] = run.status.get("seconds") if found.state in DONE else None
    row["commit"] = run.manifest["commit"] if clocks else None
    row["path"] = str(path.relative_to(root))  # a table may be shared, and the folders above are private
    return row | {key: plain(value) for key, value in flat(to_mapping(settings, whole=True)).items()}


def plain(value: Any) -> Any:
    """Lists as JSON text: one type per column, in every format."""
    return json.dumps(value) if isinstance(value, list) else value
