"""A sweep from its plan to its table: what is finished is skipped, what fails is tried again and then reported."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from twoclocks.clocks.window import Clocks
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.plugins import imported_files
from twoclocks.runs.execution import MENTIONED
from twoclocks.runs.load import Run
from twoclocks.runs.session import CHECKPOINT_SECONDS
from twoclocks.runs.size import size_of
from twoclocks.store.checksums import encode_document
from twoclocks.store.files import PARTIAL, make_folder, remove, write_atomic
from twoclocks.store.lock import WriterLock
from twoclocks.store.run_directory import RunDirectory, check_free, now
from twoclocks.sweeps.cells import DONE, STATES, CellStatus, cell_path, cell_row, cell_status
from twoclocks.sweeps.executors import Executor, Job, JobResult, Pool
from twoclocks.sweeps.grid import Cell, Plan
from twoclocks.sweeps.table import write_table
from twoclocks.training.stopping import StopRequest

RETRIES = 3
LOOK = 0.5  # seconds between two looks at what runs
PATIENCE = 2.0  # seconds before a cell that another process writes is tried again


@dataclass
class Sweep:
    """A sweep in its folder: the plan, where every cell stands, and what became of those that failed."""

    plan: Plan
    root: Path
    failures: dict[str, str] = field(default_factory=dict)  # key to reason, of cells given up
    attempts: Counter[str] = field(default_factory=Counter)
    busy: set[str] = field(default_factory=set)  # cells that were given to a pool
    _done: dict[str, CellStatus] = field(default_factory=dict)  # what will not change any more

    def standings(self) -> dict[str, CellStatus]:
        return {cell.key: self.cell_status(cell) for cell in self.plan.cells}

    def cell_status(self, cell: Cell) -> CellStatus:
        if cell.key in self.failures:
            return CellStatus("failed", reason=self.failures[cell.key])
        if cell.key in self._done:
            return self._done[cell.key]
        found = cell_status(cell_path(self.root, cell))
        if found.state in DONE:
            self._done[cell.key] = found
        if cell.key in self.busy and found.state not in DONE:
            return CellStatus("running", found.step)
        return found

    def complete(self, cell: Cell) -> bool:
        """Whether a cell needs no run: it is done, it is this cell, and it has all its rows."""
        found = self.cell_status(cell)
        if found.state not in DONE:
            return False
        directory = RunDirectory(cell_path(self.root, cell))
        try:
            own = directory.manifest()["origin"] == cell.settings.digest()
            whole = own and (found.state == "diverged" or directory.finished)
        except UserError:
            whole = False
        if not whole:
            self._done.pop(cell.key)
        return whole

    def counts(self) -> Counter[str]:
        return Counter(found.state for found in self.standings().values())

    def status(self) -> dict[str, Any]:
        """All that is known, for ``--json``."""
        cells = []
        for cell, found in zip(self.plan.cells, self.standings().values(), strict=True):
            clocks = self.clocks_of(cell, found)
            line = {"cell": cell.key, **vars(found), "steps": cell.settings.training.steps, **cell.point}
            cells.append(line if clocks is None else {**line, **clocks.as_json()})
        counts = Counter(line["state"] for line in cells)
        return {"name": self.plan.name, "path": str(self.root), "counts": dict(counts), "cells": cells}

    def clocks_of(self, cell: Cell, found: CellStatus) -> Clocks | None:
        """Of a cell that is done and can be read."""
        with contextlib.suppress(UserError):
            return Run(cell_path(self.root, cell)).clocks() if found.state in DONE else None
        return None

    def lines(self, states: Collection[str] = STATES) -> list[dict[str, str]]:
        """One line a cell, for people: those in the given states, without columns that would be empty."""
        lines = []
        for cell, found in zip(self.plan.cells, self.standings().values(), strict=True):
            if found.state not in states:
                continue
            line = {"cell": cell.key, **{key: str(value) for key, value in cell.point.items()}, "state": found.state}
            line["step"] = f"{found.step:,}/{cell.settings.training.steps:,}"
            line |= {"τ_rule": "", "τ_mem": "", "window": "", "reason": found.reason}
            if (clocks := self.clocks_of(cell, found)) is not None:
                line |= {"τ_rule": str(clocks.rule), "τ_mem": str(clocks.memory), "window": str(clocks)}
            lines.append(line)
        filled = {key for line in lines for key, value in line.items() if value}
        return [{key: value for key, value in line.items() if key in filled} for line in lines]

    def summary(self) -> str:
        counts = self.counts()
        words = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])
        return f"{self.plan.name}: {len(self.plan.cells):,} cells: {words}. In {self.root}"

    def disk_notice(self) -> str:
        """What the weights that cells keep for dissection will take; nothing where that is little."""
        kept = sum(size_of(cell.settings).kept_weights for cell in self.plan.cells)
        words = f"{self.plan.name}: its cells will keep {kept / 1e9:,.1f} GB of weights (evaluation.keep_weights)"
        return words if kept > MENTIONED else ""

    def rows(self) -> list[dict[str, Any]]:
        return [cell_row(self.root, cell, self.cell_status(cell)) for cell in self.plan.cells]


Look = Callable[[Sweep], None]


def run_sweep(
    plan: Plan,
    root: Path | str,
    executor: Executor,
    look: Look = lambda sweep: None,
    *,
    retries: int = RETRIES,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> Sweep:
    """Run every cell that is not finished; in the end the table in ``root`` has one row a cell, whatever it came to."""
    for name, value in (("retries", retries), ("checkpoint_seconds", checkpoint_seconds)):
        if not value >= 0:
            raise SettingError(name, value, "use a number of at least 0")
    root = Path(root)
    check_free(root, besides=["cells", "sweep.json", "table.csv", "table.parquet"])
    sweep = Sweep(plan, root)
    waiting = [cell for cell in plan.cells if not sweep.complete(cell)]
    devices = {cell.settings.training.device.partition(":")[0] for cell in waiting}
    # The pool comes first: a cluster that cannot be entered leaves no trace, and Ray takes SIGTERM's handler.
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(executor.open("cuda" if "cuda" in devices else "cpu", root)) if waiting else None
        make_folder(root / "cells")
        stack.enter_context(WriterLock(root))
        stop = stack.enter_context(StopRequest())
        for left in root.glob(f".*{PARTIAL}"):
            remove(left)
        write_atomic(root / "sweep.json", encode_document(description(plan)))
        if pool is not None:
            Dispatch(sweep, pool, waiting, retries, checkpoint_seconds).run(stop, look)
        write_table(sweep.rows(), root)
        look(sweep)
    return sweep


def description(plan: Plan) -> dict[str, Any]:
    """What a person who finds the folder wants to know: which cell is which."""
    shared = to_mapping(plan.cells[0].settings)
    cells = {cell.key: cell.point for cell in plan.cells}
    return {"name": plan.name, "description": plan.description, "written": now(), "first": shared, "cells": cells}


class Dispatch:
    """Gives cells to a pool until each is done or given up.

    A cell gets 1 + ``retries`` tries. One that ran out of memory gets one more, alone, when all others are done; so
    does, as its last, one whose process was killed, since that may have been the system's answer to a lack of memory.
    """

    def __init__(
        self,
        sweep: Sweep,
        pool: Pool,
        waiting: list[Cell],
        retries: int,
        checkpoint_seconds: float,
    ) -> None:
        self.sweep, self.pool, self.retries, self.checkpoint_seconds = sweep, pool, retries, checkpoint_seconds
        self.cells = {cell.key: cell for cell in waiting}
        self.queue, self.alone = deque(self.cells), deque[str]()
        self.later: dict[str, float] = {}  # cells that another process writes, and when to try them again
        self.isolated: set[str] = set()  # cells that had their try alone

    def run(self, stop: StopRequest, look: Look) -> None:
        running = self.sweep.busy
        looked = 0.0
        while self.queue or self.alone or self.later or running:
            self.queue.extend(key for key, when in self.later.items() if when <= time.monotonic())
            self.later = {key: when for key, when in self.later.items() if when > time.monotonic()}
            while self.queue and len(running) < self.pool.capacity:
                self.give(self.queue.popleft(), alone=False)
            if self.alone and not (running or self.queue or self.later):
                self.give(self.alone.popleft(), alone=True)
            if not running:
                time.sleep(0.1)  # all that is left is written by others
            for ended in self.pool.wait(LOOK):
                running.discard(ended.key)
                self.judge(ended)
            stop.check()
            if time.monotonic() - looked > LOOK:
                look(self.sweep)
                looked = time.monotonic()

    def give(self, key: str, alone: bool) -> None:
        cell = self.cells[key]
        self.sweep.attempts[key] += 1
        self.sweep.busy.add(key)
        if alone:
            self.isolated.add(key)
        out = str(cell_path(self.sweep.root, cell).absolute())
        imports = tuple(record["path"] for record in imported_files())
        self.pool.start(Job(key, to_mapping(cell.settings), out, self.checkpoint_seconds, alone, imports))

    def judge(self, ended: JobResult) -> None:
        key = ended.key
        if ended.outcome in DONE:
            return
        then = next_try(ended.outcome, self.sweep.attempts[key], self.retries, alone=key in self.isolated)
        if then == "later":
            self.sweep.attempts[key] -= 1  # it was not tried
            self.later[key] = time.monotonic() + PATIENCE
        elif then == "never":
            self.sweep.failures[key] = ended.reason
        else:
            (self.alone if then == "alone" else self.queue).append(key)


def next_try(outcome: str, tried: int, retries: int, alone: bool) -> Literal["now", "alone", "later", "never"]:
    """When a cell that did not get done after ``tried`` tries is tried again; ``alone``: the last one was so.

    >>> [next_try("lost", tried, retries=2, alone=False) for tried in (1, 2, 3)]
    ['now', 'alone', 'never']
    """
    if outcome == "busy":
        return "later"
    if outcome == "memory":
        return "never" if alone else "alone"
    if tried > retries:
        return "never"
    return "alone" if outcome == "lost" and tried == retries else "now"
