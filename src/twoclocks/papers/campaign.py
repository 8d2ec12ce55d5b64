"""The campaign as a queue: the next runs that fit into the time there is, in order, side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from twoclocks.papers.as_printed import diverged
from twoclocks.papers.cost import START, expected_seconds
from twoclocks.papers.grids import Grid
from twoclocks.papers.records import Record, Records
from twoclocks.papers.reproduction import Reproduction, by_identity, campaign_cells, is_covered
from twoclocks.papers.rows import file_name, identity
from twoclocks.papers.twins import comparison
from twoclocks.papers.views import view_file
from twoclocks.sweeps.grid import Cell

RESERVE = 20.0  # seconds at the end of the time, for the last evaluations and checkpoints


def waiting_cells(place: Reproduction, records: Records | None = None) -> list[tuple[Grid, Cell]]:
    """The planned runs that are not done, in the order of the campaign, and last those that failed.

    Done means with rows and with all views; of a run that diverged there is nothing to view.
    """
    known = by_identity(records if records is not None else place.records())
    waiting = [
        (grid, cell)
        for grid, cell in campaign_cells(place.scale)
        if not is_covered(cell, known) or not (has_views(place, grid, cell) or has_diverged(cell, known))
    ]
    failed = place.failures()
    return sorted(waiting, key=lambda pair: pair[1].key in failed)


def has_views(place: Reproduction, grid: Grid, cell: Cell) -> bool:
    """Whether what a grid measures beyond the rows of a cell is there: its views, and the comparison of twins."""
    rows = place.rows / file_name(cell.settings)
    compared = not grid.twins or comparison(place.rows, cell.settings).is_file()
    return compared and all(view_file(rows, name).is_file() for name in grid.views)


def has_diverged(cell: Cell, known: Mapping[str, Sequence[Record]]) -> bool:
    """Whether a known run with the training of a cell diverged."""
    return any(diverged(one) for one in known.get(identity(cell.settings), ()))


def next_cells(waiting: Sequence[tuple[Grid, Cell]], seconds: float, workers: int) -> list[Cell]:
    """The next runs, in order, that fit into the time together.

    A GPU does not compute faster when runs share it, except that their starts overlap. So the times add up, and each
    start counts for its share among the workers. A run that is longer than all of the time is left for another call.
    """
    chosen: list[Cell] = []
    left = seconds - RESERVE
    for grid, cell in waiting:
        cost = expected_seconds(cell.settings, grid.views)
        cost -= START[cell.settings.training.device.partition(":")[0]] * (1 - 1 / workers)
        if cost <= left:
            chosen.append(cell)
            left -= cost
    return chosen


def rounds(place: Reproduction, seconds: float, workers: int) -> Iterator[list[Cell]]:
    """Runs to make now, again and again until nothing more fits: what ends early leaves its time to the next in order.

    If no run fits at all, the first one is begun; it continues from its checkpoint the next time.
    """
    end = time.monotonic() + seconds
    waiting = waiting_cells(place)
    chosen = next_cells(waiting, seconds, workers) or [cell for _, cell in waiting[:1]]
    tried: set[str] = set()
    while chosen:
        yield chosen
        tried |= {cell.key for cell in chosen}
        untried = [(grid, cell) for grid, cell in waiting_cells(place) if cell.key not in tried]
        chosen = next_cells(untried, end - time.monotonic(), workers)
