"""Measurements of views, committed beside rows: they say the same as on the run itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from twoclocks.core.errors import UserError
from twoclocks.dissection import choose_views, dissect_run
from twoclocks.papers.records import Record
from twoclocks.papers.rows import StoredRun, write_rows
from twoclocks.papers.views import view_of, write_views
from twoclocks.runs import Run


@pytest.fixture
def run(tiny_dit: Run, tmp_path: Path) -> Run:
    """A copy, since measurements are stored in the run, and other tests count on one that was never dissected."""
    return Run(Path(shutil.copytree(tiny_dit.path, tmp_path / "copy")))


def test_committed_measurements_say_the_same(run: Run, tmp_path: Path) -> None:
    names = ["raster", "approach", "spectrum", "basin", "field", "groups"]
    stored = StoredRun(write_rows(run, tmp_path))
    written = write_views(run, tmp_path, names)
    assert len(written) == len(names)
    there = dissect_run(run, names).infos
    for name in names:
        found = view_of(Record(stored), name)
        assert found is not None and found.sentences() == there[name].sentences(), name
        assert found.numbers() == there[name].numbers(), name


def test_a_view_that_was_not_measured_is_none_and_a_damaged_one_is_named(run: Run, tmp_path: Path) -> None:
    stored = StoredRun(write_rows(run, tmp_path))
    assert view_of(Record(stored), "raster") is None
    (path,) = write_views(run, tmp_path, ["raster"])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="restore the file"):
        view_of(Record(stored), "raster")


def test_a_summary_with_other_settings_needs_no_new_measurement(run: Run, tmp_path: Path) -> None:
    stored = Record(StoredRun(write_rows(run, tmp_path)))
    write_views(run, tmp_path, ["spectrum"])
    for departure in (0.02, 0.2):
        there = dissect_run(run, choose_views(["spectrum"], {"spectrum": {"departure": departure}}))
        found = view_of(stored, "spectrum", departure=departure)
        assert found is not None and found.numbers() == there.infos["spectrum"].numbers()
        assert found.numbers()["memory_clock"]["threshold"] == departure
    with pytest.raises(UserError, match="departure"):
        view_of(stored, "spectrum", levels=3)  # that would have to be measured
