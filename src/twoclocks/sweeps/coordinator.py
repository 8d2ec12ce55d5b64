"""Run a sweep: finished cells are skipped, failed cells are retried and then reported, results go to a table."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoclocks.clocks.window import Clocks
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.plugins import changed_imports, imported_files
from twoclocks.runs.execution import MENTIONED
from twoclocks.runs.load import DONE
from twoclocks.runs.session import CHECKPOINT_SECONDS
from twoclocks.runs.size import size_of
from twoclocks.store.checksums import encode_document
from twoclocks.store.files import PARTIAL, make_folder, remove, write_atomic
from twoclocks.store.folders import check_free
from twoclocks.store.lock import WriterLock
from twoclocks.store.run_directory import RunDirectory, now
from twoclocks.sweeps.cells import STATES, CellStatus, cell_path, cell_row, cell_status, read_clocks
from twoclocks.sweeps.dispatch import Dispatch
from twoclocks.sweeps.executors import Executor
from twoclocks.sweeps.grid import Cell, Plan
from twoclocks.sweeps.table import write_table
from twoclocks.training.stopping import StopRequest

log = logging.getLogger("twoclocks")

RETRIES = 3


@dataclass
class Sweep:
    """A sweep in its folder: the plan, the status of every cell, and the reasons of failures."""

    plan: Plan
    root: Path
    failures: dict[str, str] = field(default_factory=dict)  # key to reason, of cells that are not retried any more
    attempts: Counter[str] = field(default_factory=Counter)
    busy: set[str] = field(default_factory=set)  # cells that run in a pool
    # While this process dispatches the cells, it knows which of them change: the running ones.
    dispatching: bool = False
    _known: dict[str, CellStatus] = field(default_factory=dict)  # as last read

    def cell_statuses(self) -> dict[str, CellStatus]:
        """The status of every cell, by key."""
        return {cell.key: self.cell_status(cell) for cell in self.plan.cells}

    def cell_status(self, cell: Cell) -> CellStatus:
        """The status of one cell, from its folder and from what is known of its job."""
        if cell.key in self.failures:
            return CellStatus("failed", reason=self.failures[cell.key])
        known, busy = self._known.get(cell.key), cell.key in self.busy
        if known is not None and (known.state in DONE or (self.dispatching and not busy)):
            return known
        found = self._known[cell.key] = cell_status(cell_path(self.root, cell))
        return CellStatus("running", found.step) if busy and found.state not in DONE else found

    def forget(self, key: str) -> None:
        """Read the status of a cell again when it is next asked for."""
        self._known.pop(key, None)

    def complete(self, cell: Cell) -> bool:
        """Whether a cell need not run: its folder is done, has its settings, and has all rows."""
        found = self.cell_status(cell)
        if found.state not in DONE:
            return False
        directory = RunDirectory(cell_path(self.root, cell))
        try:
            same = directory.manifest()["origin"] == cell.settings.digest()
            complete = same and (found.state == "diverged" or directory.finished)
        except UserError:
            complete = False
        if not complete:
            self.forget(cell.key)
        return complete

    def warn_of_changed_imports(self) -> None:
        """Warn of cells that were begun with another version of a file that is imported now: one line per version."""
        made: dict[tuple[str, str], list[str]] = {}  # name and SHA-256 of a file, to cells
        for cell in self.plan.cells if imported_files() else ():
            directory = RunDirectory(cell_path(self.root, cell))
            with contextlib.suppress(UserError):  # damaged: it runs again, or is reported as failed
                stored = directory.manifest().get("imports", []) if directory.begun else []
                for version in changed_imports(stored):
                    made.setdefault(version, []).append(cell.key)
        for (name, digest), keys in made.items():
            cells = f"cell {keys[0]}" + (f" and {len(keys) - 1:,} more" if len(keys) > 1 else "")
            log.warning(f"{cells}: made with another version of {name} than the one imported now (was {digest[:12]}…)")

    def counts(self) -> Counter[str]:
        """Number of cells in each state."""
        return Counter(found.state for found in self.cell_statuses().values())

    def status(self) -> dict[str, Any]:
        """Status and clocks of all cells, for ``--json``."""
        cells = []
        for cell, found in zip(self.plan.cells, self.cell_statuses().values(), strict=True):
            clocks = self.clocks_of(cell, found)
            found = found if clocks is not None else self.cell_status(cell)
            line = {"cell": cell.key, **vars(found), "steps": cell.settings.training.steps, **cell.point}
            cells.append(line if clocks is None else {**line, **clocks.as_json()})
        counts = Counter(line["state"] for line in cells)
        return {"name": self.plan.name, "path": str(self.root), "counts": dict(counts), "cells": cells}

    def clocks_of(self, cell: Cell, found: CellStatus, changes: bool = True) -> Clocks | None:
        """The clocks of a cell, if asked for with change points; None if it is not done or cannot be read.

        A finished cell that cannot be read counts as failed from now on.
        """
        try:
            return read_clocks(cell_path(self.root, cell), changes) if found.state in DONE else None
        except UserError as error:
            if found.state == "finished":  # one that diverged may have no evaluation
                self.failures[cell.key] = str(error)
        return None

    def lines(self, states: Collection[str] = STATES) -> list[dict[str, str]]:
        """One line per cell in the given states, for printing; columns without values are left out."""
        lines = []
        for cell, found in zip(self.plan.cells, self.cell_statuses().values(), strict=True):
            clocks = self.clocks_of(cell, found, changes=False)
            found = found if clocks is not None else self.cell_status(cell)
            if found.state not in states:
                continue
            line = {"cell": cell.key, **{key: str(value) for key, value in cell.point.items()}, "state": found.state}
            line["step"] = f"{found.step:,}/{cell.settings.training.steps:,}"
            line |= {"τ_rule": "", "τ_mem": "", "window": "", "reason": found.reason}
            if clocks is not None:
                line |= {"τ_rule": str(clocks.rule), "τ_mem": str(clocks.memory), "window": str(clocks)}
            lines.append(line)
        filled = {key for line in lines for key, value in line.items() if value}
        return [{key: value for key, value in line.items() if key in filled} for line in lines]

    def summary(self) -> str:
        """Number of cells in each state, in one sentence."""
        counts = self.counts()
        states = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])
        return f"{self.plan.name}: {len(self.plan.cells):,} cells: {states}. In {self.root}"

    def disk_notice(self) -> str:
        """How much disk the cells' weights for dissection will take; empty if it is little."""
        size = sum(size_of(cell.settings).stored_weights for cell in self.plan.cells)
        notice = f"{self.plan.name}: its cells will keep {size / 1e9:,.1f} GB of weights (evaluation.keep_weights)"
        return notice if size > MENTIONED else ""

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, one per cell."""
        return [cell_row(self.root, cell, self.cell_status(cell)) for cell in self.plan.cells]


ProgressCallback = Callable[[Sweep], None]  # called about twice per second


def run_sweep(
    plan: Plan,
    root: Path | str,
    executor: Executor,
    report: ProgressCallback = lambda sweep: None,
    *,
    retries: int = RETRIES,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    besides: Sequence[str] = (),
) -> Sweep:
    """Run all cells that are not finished; then write a table to ``root`` with one row per cell, failed or not.

    ``besides`` are names of further files that the caller writes to ``root``.
    """
    for name, value in (("retries", retries), ("checkpoint_seconds", checkpoint_seconds)):
        if not value >= 0:
            raise SettingError(name, value, "use a number of at least 0")
    root = Path(root)
    check_free(root, besides=["cells", "sweep.json", "table.csv", "table.parquet", *besides])
    sweep = Sweep(plan, root)
    sweep.warn_of_changed_imports()
    waiting = [cell for cell in plan.cells if not sweep.complete(cell)]
    devices = {cell.settings.training.device.partition(":")[0] for cell in waiting}
    # The pool is opened first: if a cluster cannot be reached nothing is written, and Ray replaces SIGTERM's handler.
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(executor.open("cuda" if "cuda" in devices else "cpu", root)) if waiting else None
        make_folder(root / "cells")
        lock = stack.enter_context(WriterLock(root))
        stop = stack.enter_context(StopRequest())
        for left in root.glob(f".*{PARTIAL}"):
            remove(left)
        write_atomic(root / "sweep.json", encode_document(description(plan)), lock.check)
        if pool is not None:
            Dispatch(sweep, pool, waiting, retries, checkpoint_seconds, executor.packing).run(stop, report)
        write_table(sweep.rows(), root, lock.check)
        report(sweep)
    return sweep


def description(plan: Plan) -> dict[str, Any]:
    """The content of sweep.json: for each cell, its point in the grid; and the settings of the first cell."""
    shared = to_mapping(plan.cells[0].settings)
    cells = {cell.key: cell.point for cell in plan.cells}
    return {"name": plan.name, "description": plan.description, "written": now(), "first": shared, "cells": cells}
