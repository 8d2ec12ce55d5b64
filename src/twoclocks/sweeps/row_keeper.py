"""Rows of a sweep's cells in a folder of their own: they outlive the run directories, and go to other machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.runs.load import DONE, Run
from twoclocks.runs.rows import StoredRun, file_name, write_rows
from twoclocks.sweeps.cells import cell_path
from twoclocks.sweeps.coordinator import Sweep
from twoclocks.sweeps.grid import Cell


@dataclass
class RowKeeper:
    """Writes the rows of every cell to ``folder`` as soon as the cell is done, and finds them there again."""

    folder: Path
    written: set[str] = field(default_factory=set)  # keys of cells

    def write(self, sweep: Sweep) -> list[Cell]:
        """Write the rows of the cells that ended since the last call; returns these cells."""
        ended = [
            cell for cell in sweep.plan.cells if cell.key not in self.written and sweep.cell_status(cell).state in DONE
        ]
        for cell in ended:
            run = Run(cell_path(sweep.root, cell))
            if list(run.directory.metrics()):  # a run may diverge before its first evaluation
                write_rows(run, self.folder)
            self.written.add(cell.key)
        return ended

    def find(self, cell: Cell) -> StoredRun | None:
        """The rows of a run with exactly the settings of a cell; None where there are none, or they are damaged."""
        run = StoredRun(self.folder / file_name(cell.settings))
        try:
            return run if run.path.is_file() and run.settings.digest() == cell.settings.digest() else None
        except UserError:
            return None
