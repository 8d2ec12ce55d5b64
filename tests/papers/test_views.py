"""Measurements of views, committed beside rows: they say the same as on the run itself."""

from __future__ import annotations

import shutil
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.core.errors import UserError
from twoclocks.dissection import choose_views, dissect_run
from twoclocks.papers.records import Record
from twoclocks.papers.views import view_of, write_views
from twoclocks.runs import Run
from twoclocks.runs.rows import StoredRun, write_rows
from twoclocks.store.folders import DERIVED


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


def arrays(info: object) -> list[np.ndarray[Any, Any]]:
    """All arrays of floats of a result that change with training."""
    assert is_dataclass(info)
    found = [value for value in vars(info).values() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    for value in vars(info).values():
        if isinstance(value, dict):
            found += [one for one in value.values() if isinstance(one, np.ndarray)]
        elif is_dataclass(value) and not isinstance(value, type):
            found += [one for one in vars(value).values() if isinstance(one, np.ndarray)]
    return found


@pytest.mark.parametrize(
    ("model", "names"), [("dit", ("spectrum", "basin", "field", "trajectories")), ("gpt", ("positions",))]
)
def test_networks_in_half_precision_are_measured(
    tiny_dit: Run, tiny_gpt: Run, tmp_path: Path, model: str, names: tuple[str, ...]
) -> None:
    """As on a GPU, where views take the networks in the precision of training: here under the CPU's autocast."""
    run = Run(Path(shutil.copytree((tiny_dit if model == "dit" else tiny_gpt).path, tmp_path / "copy")))
    exact = dissect_run(run, names).infos
    shutil.rmtree(run.path / DERIVED)
    stored = StoredRun(write_rows(run, tmp_path))
    assert len(write_views(run, tmp_path, names, "cpu", precision="bfloat16")) == len(names)
    measured = set((run.path / DERIVED).rglob("*"))
    for name in names:
        committed, there = view_of(Record(stored), name), view_of(Record(Run(run.path)), name)
        assert committed is not None and there is not None
        assert committed.numbers() == there.numbers(), name
        rounded, whole = arrays(there), arrays(exact[name])
        assert not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(rounded, whole, strict=True)), name
        for one, other in zip(rounded, whole, strict=True):  # bfloat16 has three digits, and outcomes may change
            apart = np.nanmean(np.abs(one - other)) if one.size else 0.0
            assert apart <= 0.1 * max(float(np.nanmean(np.abs(other))), 1e-3) + 1e-6, (name, one.shape)
    assert set((run.path / DERIVED).rglob("*")) == measured  # nothing was measured again in another precision


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
