"""What the claims read from runs is the same on real run directories and on their committed rows and views."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from twoclocks.papers.claim import CLAIMS
from twoclocks.papers.records import Record, Records
from twoclocks.papers.two_clocks.a11_recombination import invention
from twoclocks.papers.two_clocks.a12_sticky import persistence_of
from twoclocks.papers.two_clocks.a13_approach import approach_of
from twoclocks.papers.two_clocks.a14_losses import loss_clocks
from twoclocks.papers.two_clocks.a15_basins import widths_of
from twoclocks.papers.two_clocks.a16_positions import order_of
from twoclocks.papers.views import view_of, write_views
from twoclocks.runs import Run
from twoclocks.runs.rows import StoredRun, write_rows


def test_measurements_of_a_run_and_of_its_rows(tiny_dit: Run, tiny_gpt: Run, tmp_path: Path) -> None:
    """Runs of a few steps, which decide nothing: every reader answers, and both forms answer alike."""
    views = {"tiny_dit": ["raster", "approach", "spectrum", "basin"], "tiny_gpt": ["raster", "approach", "positions"]}
    made = {"tiny_dit": tiny_dit, "tiny_gpt": tiny_gpt}
    for name, original in made.items():  # views store what they measured in a run, and others use this one
        run = Run(Path(shutil.copytree(original.path, tmp_path / original.path.name)))
        here, stored = Record(run), Record(StoredRun(write_rows(run, tmp_path)))
        write_views(run, tmp_path, views[name])
        for read in (invention, approach_of, loss_clocks, widths_of, order_of):
            assert repr(read(here)) == repr(read(stored)), read.__name__
        raster = view_of(stored, "raster")
        found = persistence_of(raster.states)  # type: ignore[union-attr]
        known = np.isfinite(found.low) & np.isfinite(found.high)
        assert (found.low[known] <= found.high[known]).all()  # all in one state: nothing is known


def test_every_claim_judges_runs_that_are_not_its_own(tiny_dit: Run, tiny_gpt: Run) -> None:
    others = Records.of([tiny_dit, tiny_gpt])
    for name, claim in CLAIMS.items():
        assert claim().judge(others).verdict == "not run", name
