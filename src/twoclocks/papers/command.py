"""The command ``twoclocks reproduce``: figures, claims, the campaign and the ledger."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.exit_codes import EXIT_FAILED
from twoclocks.papers import early_stopping, two_clocks
from twoclocks.papers.campaign import rounds, waiting_cells
from twoclocks.papers.cost import expected_seconds
from twoclocks.papers.grids import views_by_cell
from twoclocks.papers.ledger import claim_rows, claims_table, drawn_figures, listing, minutes, verdict_counts
from twoclocks.papers.page import write_page
from twoclocks.papers.reproduction import Entry, Reproduction, cells_of_entries, entries
from twoclocks.papers.scales import Scale, scale_named
from twoclocks.report.console import show_lines, show_rows, watch_sweep
from twoclocks.sweeps import executor_of
from twoclocks.sweeps.executors import Executor
from twoclocks.sweeps.grid import Cell

assert two_clocks.__doc__ and early_stopping.__doc__  # importing them registers runs, claims and figures
COMMITTED = Path("results") / "campaign"

log = logging.getLogger("twoclocks")


def reproduce(arguments: argparse.Namespace) -> int:
    """Make what is missing, then draw and judge; ``campaign`` and ``ledger`` are words of their own."""
    scale = scale_named(arguments.scale)
    executor, rest = executor_of(arguments.executor, arguments.workers, arguments.overrides)
    if rest:
        raise UserError(f"{next(iter(rest))}: the settings of a reproduction are fixed; use twoclocks run or sweep")
    place = Reproduction(scale, arguments.out / scale.name, rows_folder(arguments, scale))
    names: list[str] = arguments.names
    if arguments.plan and names != ["campaign"]:
        raise UserError("--plan: it belongs to reproduce campaign; use --list to see what a figure or claim needs")
    if place.rows.exists() and not place.rows.is_dir():
        raise SettingError("--rows", str(place.rows), "it is a file; give the folder of the rows")
    for word in ("campaign", "ledger"):
        if word in names and len(names) > 1:
            raise UserError(f"reproduce: {word} stands alone; leave out {', '.join(n for n in names if n != word)}")
    if arguments.list or not names:
        return show(listing(place, place.records()), arguments.json)
    if names == ["campaign"]:
        return campaign(place, executor, arguments)
    chosen, failed = entries() if names == ["ledger"] else entries(names), 0
    if names != ["ledger"]:
        place.write_missing_rows()
        cells = place.missing(cells_of_entries(chosen.values(), scale))
        check_device(cells, scale)
        failed = make(place, cells, executor)
    return publish(place, chosen, arguments.json) or (EXIT_FAILED if failed else 0)


def rows_folder(arguments: argparse.Namespace, scale: Scale) -> Path:
    """Where rows are kept: by default, at the scales of the paper's networks, those of this repository."""
    if arguments.rows is not None:
        return Path(arguments.rows)
    committed = scale.name in ("gpu", "paper") and COMMITTED.is_dir()
    return COMMITTED if committed else Path(arguments.out) / scale.name / "rows"


def campaign(place: Reproduction, executor: Executor, arguments: argparse.Namespace) -> int:
    """Make the next runs that fit into the minutes."""
    if not arguments.minutes > 0:
        raise SettingError("--minutes", arguments.minutes, "use a number above 0")
    waiting, end = waiting_cells(place), time.monotonic() + 60 * arguments.minutes
    views = views_by_cell(place.scale)

    def expected(cells: Iterable[Cell]) -> str:
        return minutes(sum(expected_seconds(cell.settings, views.get(cell.key, ())) for cell in cells))

    if not arguments.json:
        show_lines(f"{len(waiting):,} runs are waiting, about {expected(cell for _, cell in waiting)} minutes")
    if arguments.plan:
        lines = [{"line": str(grid.line), "grid": grid.name, **described(cell, grid.views)} for grid, cell in waiting]
        return show(lines, arguments.json)
    failed = 0
    for chosen in rounds(place, 60 * arguments.minutes, executor.workers or executor.cells_per_gpu):
        check_device(chosen, place.scale)
        if not arguments.json:
            show_lines(f"{len(chosen):,} runs now, about {expected(chosen)} minutes")
        failed += make(place, chosen, executor, end - time.monotonic())
    left = len(waiting_cells(place))
    if arguments.json:
        show({"finished": len(waiting) - left, "failed": failed, "waiting": left, "rows": str(place.rows)}, True)
    else:
        show_lines(f"{len(waiting) - left:,} runs finished, {left:,} are waiting. Rows: {place.rows}")
    return EXIT_FAILED if failed else 0


def described(cell: Cell, views: Collection[str]) -> dict[str, str]:
    """A waiting run in a table; its minutes include those of its views."""
    point = ", ".join(f"{key} {value}" for key, value in cell.point.items())
    return {"run": f"{cell.settings.name}: {point}", "minutes": minutes(expected_seconds(cell.settings, views))}


def make(place: Reproduction, cells: list[Cell], executor: Executor, seconds: float | None = None) -> int:
    """Make runs, with their progress on stderr; returns how many failed."""
    if not cells:
        return 0
    with watch_sweep() as observe:
        failures = place.make(cells, executor, observe, seconds)
    for key, reason in failures.items():
        log.warning(f"{key} failed: {reason}")
    return len(failures)


def check_device(cells: list[Cell], scale: Scale) -> None:
    """UserError where runs need a GPU and there is none."""
    import torch

    if any(cell.settings.training.on_gpu for cell in cells) and not torch.cuda.is_available():
        fix = f"{len(cells)} runs are missing, and no GPU is available; use --scale desk or smoke"
        raise SettingError("--scale", scale.name, fix)


def publish(place: Reproduction, chosen: dict[str, Entry], as_json: bool) -> int:
    """Judge and draw from what is there; write the page; print the claims."""
    records = place.records()
    rows, figures = claim_rows(records, chosen), drawn_figures(records, chosen)
    page = write_page(place.folder / "reproduction.html", place.scale, records, rows, figures)
    if as_json:
        drawn = [{"figure": one.name, "drawn": one.drawing is not None, "caption": one.caption} for one in figures]
        return show({"claims": [row.as_json() for row in rows], "figures": drawn, "page": str(page)}, True)
    if rows:
        show_rows([{key: row[key] for key in ("claim", "measured", "seeds", "verdict")} for row in claims_table(rows)])
        show_lines(verdict_counts(rows))
    for one in figures:
        show_lines(f"{one.name}: {one.caption}")
    show_lines(f"Page: {page}")
    return 0


def show(lines: Any, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps(lines, indent=2) + "\n")
    else:
        show_rows(lines)
    return 0
