"""The campaign as a queue: the next runs that fit into the time there is, in order, side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from twoclocks.papers.cost import START, expected_seconds
from twoclocks.papers.grids import Grid
from twoclocks.papers.records import Records
from twoclocks.papers.reproduction import Reproduction, campaign_cells
from twoclocks.sweeps.grid import Cell

RESERVE = 20.0  # seconds at the end of the time, for the last evaluations and checkpoints


def waiting_cells(place: Reproduction, records: Records | None = None) -> list[tuple[Grid, Cell]]:
    """The planned runs that are not done, in the order of the campaign, and last those that failed."""
    planned = campaign_cells(place.scale)
    missing = {cell.key for cell in place.missing((cell for _, cell in planned), records)}
    failed = place.failures()
    return sorted((pair for pair in planned if pair[1].key in missing), key=lambda pair: pair[1].key in failed)


def next_cells(waiting: Sequence[tuple[Grid, Cell]], seconds: float, workers: int) -> list[Cell]:
    """The next runs, in order, that fit into the time together.

    The times add up, since those of ``cost`` are a run's share of a GPU that is busy; each start counts for its share
    among the workers, since starts overlap. A run that is longer than all of the time is left for another call.
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
