"""Many finished runs, written from one that was trained."""

from __future__ import annotations

from pathlib import Path

from twoclocks.core.config import flat
from twoclocks.runs import run
from twoclocks.sweeps.grid import Plan, SweepSettings, make_plan
from twoclocks.testing.copies import SIZES, SMALL, write_copies


def many_cells(seeds: int) -> Plan:
    """A sweep over sizes, two learning rates and seeds: ten cells per seed."""
    grid = {"data.n": list(SIZES), "training.learning_rate": [1e-3, 2e-3]}
    return make_plan(SweepSettings(name="many", base="demo-gpt", set=flat(SMALL), grid=grid, seeds={"training": seeds}))


def write_cells(root: Path, plan: Plan) -> None:
    """Finish all cells of a sweep."""
    template = run(plan.cells[0].settings, root.parent / "template")
    write_copies(template, ((root / "cells" / cell.key, cell.settings) for cell in plan.cells))
