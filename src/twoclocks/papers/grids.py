"""Named sets of runs that figures and claims share, in the order in which a campaign computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from twoclocks.core.errors import UnknownNameError
from twoclocks.papers.scales import Scale
from twoclocks.sweeps.grid import Cell

Cells = Callable[[Scale], Iterable[Cell]]


@dataclass(frozen=True)
class Grid:
    """A set of runs: ``line`` is its place in the campaign, ``views`` are measured on its checkpoints.

    ``twins``: its runs come in pairs, on parts 0 and 1 of the data, which are compared with each other.
    """

    registered: ClassVar[dict[str, Grid]] = {}

    name: str
    line: int
    about: str
    make: Cells
    views: tuple[str, ...] = ()
    twins: bool = False

    def cells(self, scale: Scale) -> list[Cell]:
        """Its runs at a scale, each once."""
        return list({cell.key: cell for cell in self.make(scale)}.values())


def grid(
    name: str, line: int, about: str, views: tuple[str, ...] = (), twins: bool = False
) -> Callable[[Cells], Cells]:
    """Register the decorated function as the runs of a grid."""

    def register(make: Cells) -> Cells:
        Grid.registered[name] = Grid(name, line, about, make, views, twins)
        return make

    return register


def grids() -> list[Grid]:
    """All grids in the order of the campaign."""
    return sorted(Grid.registered.values(), key=lambda one: one.line)


def views_by_cell(scale: Scale) -> dict[str, tuple[str, ...]]:
    """The views that are measured on a cell, by its key, for all cells that have some.

    At small scales a cell belongs to several grids, of which one has views.
    """
    found: dict[str, tuple[str, ...]] = {}
    for one in grids():
        for cell in one.cells(scale) if one.views else []:
            found[cell.key] = tuple(dict.fromkeys((*found.get(cell.key, ()), *one.views)))
    return found


def cells_with_twins(scale: Scale) -> dict[str, Cell]:
    """The cells that are compared with their twins, by key."""
    return {cell.key: cell for one in grids() if one.twins for cell in one.cells(scale)}


def grid_named(name: str) -> Grid:
    if name not in Grid.registered:
        raise UnknownNameError("grid", name, Grid.registered)
    return Grid.registered[name]
