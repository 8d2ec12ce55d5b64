"""Make the runs that figures and claims need, and read them: finished ones are used again, begun ones continue."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.papers.claim import CLAIMS, Claim
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.grids import Grid, grids
from twoclocks.papers.records import Record, Records
from twoclocks.papers.rows import file_name, identity, read_rows, write_rows
from twoclocks.papers.scales import Scale
from twoclocks.papers.views import view_file, write_views
from twoclocks.runs.load import Run
from twoclocks.store.files import read, write_json
from twoclocks.sweeps.cells import DONE, cell_path
from twoclocks.sweeps.coordinator import Sweep, run_sweep
from twoclocks.sweeps.executors import Executor
from twoclocks.sweeps.grid import Cell, Plan
from twoclocks.training.stopping import StoppedError

Entry = Claim | PaperFigure[object]
Report = Callable[[Sweep], None]


@dataclass(frozen=True)
class Reproduction:
    """A reproduction at one scale: ``folder`` holds its runs and pages, ``rows`` what is kept of finished runs."""

    scale: Scale
    folder: Path
    rows: Path

    @property
    def runs(self) -> Path:
        """The folder of the runs, which is that of a sweep."""
        return self.folder / "runs"

    def records(self) -> Records:
        """Everything that is there: finished runs of this folder first, since they have weights, then rows."""
        return Records.of([*self.finished_runs(), *read_rows(self.rows)], self.scale)

    def finished_runs(self) -> Iterator[Run]:
        for path in sorted(self.runs.glob("cells/*/manifest.json")):
            run = Run(path.parent)
            with contextlib.suppress(UserError):  # damaged: it is made again
                if run.status["status"] == "finished":
                    yield run.reading()

    def missing(self, cells: Iterable[Cell], records: Records | None = None) -> list[Cell]:
        """The cells that no finished run covers."""
        known = by_identity(records if records is not None else self.records())
        return [cell for cell in cells if not is_covered(cell, known)]

    def make(self, cells: Sequence[Cell], executor: Executor, report: Report, seconds: float | None = None) -> Sweep:
        """Make runs; the rows of each are written as soon as it is finished.

        ``seconds``: stop then; runs that are interrupted continue the next time from where they are.
        """
        self.write_missing_rows()
        plan = Plan(f"reproduction-{self.scale.name}", "", tuple(cells))
        watch = Watch(self, Sweep(plan, self.runs), report, seconds)
        try:
            watch.sweep = run_sweep(plan, self.runs, executor, watch)
        except StoppedError:
            if not watch.is_over:
                raise
        finally:
            watch.write_finished()
            self.remember_failures(cells, watch.sweep.failures)
        views = {cell.key: one.views for one in grids() for cell in one.cells(self.scale) if one.views}
        for cell in cells:
            if not watch.is_over:
                self.measure_views(cell, views.get(cell.key, ()))
        return watch.sweep

    def failures(self) -> dict[str, str]:
        """The cells that failed when they were last tried, with the reason."""
        path = self.folder / "failed.json"
        found: dict[str, str] = {}
        with contextlib.suppress(ValueError):  # damaged: it only says what to try last
            found = json.loads(read(path)) if path.is_file() else {}
        return found

    def remember_failures(self, tried: Iterable[Cell], failures: Mapping[str, str]) -> None:
        keys = {cell.key for cell in tried}
        before = self.failures()
        now = {**{key: why for key, why in before.items() if key not in keys}, **failures}
        if now != before:
            write_json(self.folder / "failed.json", now)

    def write_missing_rows(self) -> None:
        """Write the rows of finished runs that have none, as after a crash between the end of a run and its rows."""
        for run in self.finished_runs():
            if not (self.rows / file_name(run.settings)).is_file():
                write_rows(run, self.rows)

    def measure_views(self, cell: Cell, names: Collection[str]) -> None:
        """Measure the views of a finished cell that are not beside its rows yet."""
        rows, run = self.rows / file_name(cell.settings), Run(cell_path(self.runs, cell))
        lacking = [name for name in names if not view_file(rows, name).is_file()]
        if lacking and rows.is_file() and run.path.is_dir():
            write_views(run, self.rows, lacking)


class Watch:
    """Writes the rows of every run that has finished, and stops the sweep when its time is over."""

    def __init__(self, place: Reproduction, sweep: Sweep, report: Report, seconds: float | None) -> None:
        self.place, self.sweep, self.report = place, sweep, report
        self.end = None if seconds is None else time.monotonic() + seconds
        self.written: set[str] = set()

    @property
    def is_over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end

    def __call__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.write_finished()
        self.report(sweep)
        if self.is_over:
            raise StoppedError("the end of its minutes")

    def write_finished(self) -> None:
        for cell in self.sweep.plan.cells:
            if cell.key not in self.written and self.sweep.cell_status(cell).state in DONE:
                run = Run(cell_path(self.place.runs, cell))
                if list(run.directory.metrics()):  # a run may diverge before its first evaluation
                    write_rows(run, self.place.rows)
                self.written.add(cell.key)


def by_identity(records: Records) -> dict[str, list[Record]]:
    """All runs by what they train, not only the longest of each: a shorter one may have what a cell asks for."""
    found: dict[str, list[Record]] = {}
    for one in records.every:
        found.setdefault(one.identity, []).append(one)
    return found


def is_covered(cell: Cell, known: Mapping[str, Sequence[Record]]) -> bool:
    """Whether one of the known runs is what a cell asks for."""
    return any(one.covers(cell) for one in known.get(identity(cell.settings), ()))


def entries(names: Sequence[str] = ()) -> dict[str, Entry]:
    """Figures, tables and claims by name; by default, and for ``all``, every one. A6 stands for A6-dit and A6-gpt."""
    every: dict[str, Entry] = {
        **{name: make() for name, make in sorted(FIGURES.items(), key=lambda item: natural(item[0]))},
        **{name: make() for name, make in sorted(CLAIMS.items(), key=lambda item: natural(item[0]))},
    }
    if not names or "all" in names:
        return every
    chosen: dict[str, Entry] = {}
    for name in names:
        found = {key: entry for key, entry in every.items() if key == name or key.partition("-")[0] == name}
        if not found:
            raise UnknownNameError("reproduce", name, [*every, "all", "campaign", "ledger"])
        chosen |= found
    return chosen


def natural(name: str) -> tuple[str, int, str]:
    """A key that sorts fig2 before fig10.

    >>> sorted(["fig10", "A6-gpt", "fig2", "A6-dit"], key=natural)
    ['A6-dit', 'A6-gpt', 'fig2', 'fig10']
    """
    letters = name.rstrip("0123456789") if "-" not in name else name.partition("-")[0].rstrip("0123456789")
    digits, _, rest = name.removeprefix(letters).partition("-")
    return letters, int(digits or 0), rest


def cells_of_entries(chosen: Iterable[Entry], scale: Scale) -> list[Cell]:
    """The runs that these figures and claims need, each once."""
    return list({cell.key: cell for entry in chosen for cell in entry.cells(scale)}.values())


def campaign_cells(scale: Scale) -> list[tuple[Grid, Cell]]:
    """All planned runs, each once, in the order of the campaign."""
    found: dict[str, tuple[Grid, Cell]] = {}
    for one in grids():
        for cell in one.cells(scale):
            found.setdefault(cell.key, (one, cell))
    return list(found.values())
