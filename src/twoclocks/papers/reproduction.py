"""Make the runs that figures and claims need, and read them: finished ones are used again, begun ones continue."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.papers.as_printed import diverged
from twoclocks.papers.claim import CLAIMS, Claim
from twoclocks.papers.cost import expected_view_seconds
from twoclocks.papers.figure import FIGURES, PaperFigure
from twoclocks.papers.grids import Grid, cells_with_twins, grids, views_by_cell
from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import Scale
from twoclocks.papers.twins import comparison, write_twins
from twoclocks.papers.views import view_file, write_views
from twoclocks.runs.load import Run
from twoclocks.runs.rows import file_name, identity, read_rows, write_rows
from twoclocks.store.files import read, write_json
from twoclocks.sweeps.cells import cell_path
from twoclocks.sweeps.coordinator import Sweep, run_sweep
from twoclocks.sweeps.executors import Executor
from twoclocks.sweeps.grid import Cell, Plan
from twoclocks.sweeps.row_keeper import RowKeeper
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
        """The cells that are not done: without a finished run that covers them, a view, or the comparison of twins."""
        known = by_identity(records if records is not None else self.records())
        views, twins = views_by_cell(self.scale), cells_with_twins(self.scale)

        def is_done(cell: Cell) -> bool:
            if not is_covered(cell, known):
                return False
            compared = cell.key not in twins or self.is_compared(cell, known)
            return compared and (self.has_views(cell, views.get(cell.key, ())) or has_diverged(cell, known))

        return [cell for cell in cells if not is_done(cell)]

    def has_views(self, cell: Cell, names: Collection[str]) -> bool:
        """Whether views lie beside the rows of a cell itself: a longer run covers its rows, but may lack them."""
        rows = self.rows / file_name(cell.settings)
        return all(view_file(rows, name).is_file() for name in names)

    def is_compared(self, cell: Cell, known: Mapping[str, Sequence[Record]]) -> bool:
        """Whether a cell was compared with its twin, or cannot be, since one of the two diverged."""
        there = comparison(self.rows, cell.settings).is_file()
        return there or has_diverged(cell, known) or has_diverged(twin_of(cell), known)

    def make(
        self, cells: Sequence[Cell], executor: Executor, report: Report, seconds: float | None = None
    ) -> dict[str, str]:
        """Make runs; the rows of each are written as soon as it is finished, its views are measured after the last.

        Returns what failed: keys of cells, with the reason.

        ``seconds``: stop then. Runs that are interrupted continue the next time from where they are. Their directories
        may be gone by then, and with them what views could be measured on; so training ends early enough for the views
        of the runs that have finished. Views are not measured while runs train, in ``Watch``: the sweep calls it less
        often the longer a call takes, and would see the end of the time too late.
        """
        self.write_missing_rows()
        plan = Plan(f"reproduction-{self.scale.name}", "", tuple(cells))
        watch = Watch(self, Sweep(plan, self.runs), report, seconds, views_by_cell(self.scale))
        try:
            watch.sweep = run_sweep(plan, self.runs, executor, watch)
        except EndOfTimeError:
            pass
        finally:
            watch.write_finished()
            self.remember_failures(cells, watch.sweep.failures)
        failures = {**watch.sweep.failures, **self.measure_all_views(cells, watch), **self.compare_all_twins(watch)}
        self.remember_failures(cells, failures)
        return failures

    def measure_all_views(self, cells: Iterable[Cell], watch: Watch) -> dict[str, str]:
        """Measure the views of finished cells until the time is over; returns what could not be measured, and why."""
        failures = {}
        with contextlib.suppress(EndOfTimeError):
            for cell in cells:
                try:
                    self.measure_views(cell, watch.views.get(cell.key, ()), watch.check_time)
                except UserError as error:
                    failures[cell.key] = str(error)
        return failures

    def compare_all_twins(self, watch: Watch) -> dict[str, str]:
        """Compare the twins of which both have finished, until the time is over; returns what failed, and why."""
        failures = {}
        with contextlib.suppress(EndOfTimeError):
            for cell in cells_with_twins(self.scale).values():
                first, second = (cell_path(self.runs, one) for one in (cell, twin_of(cell)))
                lacking = not comparison(self.rows, cell.settings).is_file()
                if cell.settings.data.part == 0 and lacking and is_finished(first) and is_finished(second):
                    watch.check_time()
                    try:
                        write_twins(Run(first), Run(second), self.rows)
                    except UserError as error:
                        failures[cell.key] = str(error)
        return failures

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

    def lacking_views(self, cell: Cell, names: Collection[str]) -> list[str]:
        """The views of a cell that are not beside its rows, but can be measured: rows and run directory are there."""
        rows = self.rows / file_name(cell.settings)
        if not rows.is_file() or not cell_path(self.runs, cell).is_dir():
            return []
        return [name for name in names if not view_file(rows, name).is_file()]

    def measure_views(self, cell: Cell, names: Collection[str], check_time: Callable[[], None]) -> None:
        """Measure the views of a finished cell that are lacking; the time is checked before every measurement."""
        if lacking := self.lacking_views(cell, names):
            run = Run(cell_path(self.runs, cell))
            write_views(run, self.rows, lacking, report=lambda done, total, words: check_time())


def twin_of(cell: Cell) -> Cell:
    """The run on the other part of the data."""
    settings = replace(cell.settings, data=replace(cell.settings.data, part=1 - cell.settings.data.part))
    return Cell(settings.key(), cell.point, settings)


def is_finished(path: Path) -> bool:
    """Whether a run directory is there and its run has finished."""
    return (path / "manifest.json").is_file() and Run(path).status["status"] == "finished"


class EndOfTimeError(StoppedError):
    """The time of a call is over."""

    def __init__(self) -> None:
        super().__init__("the end of its minutes")


class Watch:
    """Writes the rows of every run that has finished, and stops the sweep when its time is over.

    ``views``: by cell, those that are measured after the sweep.
    """

    def __init__(
        self,
        place: Reproduction,
        sweep: Sweep,
        report: Report,
        seconds: float | None,
        views: Mapping[str, Collection[str]],
    ) -> None:
        self.place, self.sweep, self.report, self.views = place, sweep, report, views
        self.reserved = 0.0  # seconds that the views of finished runs will take
        self.end = None if seconds is None else time.monotonic() + seconds
        self.keeper = RowKeeper(place.rows)

    @property
    def is_over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end

    @property
    def training_is_over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end - self.reserved

    def check_time(self) -> None:
        if self.is_over:
            raise EndOfTimeError

    def __call__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.write_finished()
        self.report(sweep)
        if self.training_is_over:
            raise EndOfTimeError

    def write_finished(self) -> None:
        for cell in self.keeper.write(self.sweep):
            lacking = self.place.lacking_views(cell, self.views.get(cell.key, ()))
            self.reserved += expected_view_seconds(cell.settings, lacking)


def by_identity(records: Records) -> dict[str, tuple[Record, ...]]:
    """All runs by what they train, not only the longest of each: a shorter one may have what a cell asks for."""
    return {one.identity: one.versions for one in records}


def is_covered(cell: Cell, known: Mapping[str, Sequence[Record]]) -> bool:
    """Whether one of the known runs is what a cell asks for."""
    return any(one.covers(cell) for one in known.get(identity(cell.settings), ()))


def has_diverged(cell: Cell, known: Mapping[str, Sequence[Record]]) -> bool:
    """Whether a known run with the training of a cell diverged: there is nothing to view or to compare."""
    return any(diverged(one) for one in known.get(identity(cell.settings), ()))


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


def natural(name: str) -> list[str | int]:
    """A key that sorts fig2 before fig10: words and numbers by turns.

    >>> sorted(["fig10", "A6-gpt", "p2-fig4", "fig2", "p2-fig14", "A6-dit"], key=natural)
    ['A6-dit', 'A6-gpt', 'fig2', 'fig10', 'p2-fig4', 'p2-fig14']
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def cells_of_entries(chosen: Iterable[Entry], scale: Scale) -> list[Cell]:
    """The runs that these figures and claims need, each once."""
    return list({cell.key: cell for entry in chosen for cell in entry.cells(scale)}.values())


def campaign_cells(scale: Scale) -> list[tuple[Grid, Cell]]:
    """All planned runs, each once, in the order of the campaign, with its first grid and the views of all its grids."""
    found: dict[str, tuple[Grid, Cell]] = {}
    views = views_by_cell(scale)
    for one in grids():
        for cell in one.cells(scale):
            found.setdefault(cell.key, (replace(one, views=views.get(cell.key, ())), cell))
    return list(found.values())
