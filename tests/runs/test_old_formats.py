"""Run directories that earlier versions wrote (tests/fixtures) are read, reported, verified and continued."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import twoclocks as tc
from twoclocks.core.config import build, merge
from twoclocks.core.errors import UnknownNameError, UserError
from twoclocks.evaluation import METRICS, Column, Count, Metric, Samples, proportion
from twoclocks.runs import RunSettings, run
from twoclocks.store import verify_tree

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of format 2: one finished run, and one that was stopped at step 66 of the same 600."""
    shutil.copytree(FIXTURES, tmp_path / "old")
    return tmp_path / "old"


def test_a_finished_run_of_format_2_says_what_it_said_when_it_was_written(old: Path) -> None:
    found = tc.load_run(old / "format-2")
    columns = found.metrics()
    assert columns["sample_accuracy"][[0, 5, -1]].tolist() == [0.177734375, 0.9296875, 0.970703125]
    assert columns["sample_memorization"][-1] == 0.240234375 and columns["trials"][-1] == 512
    clocks = found.clocks()
    assert str(clocks) == "copying suspected since step 600, unconfirmed; window 48–438" and (
        clocks.rule.lower,
        clocks.rule.upper,
    ) == (26, 48)
    series = found.series()
    assert [series.copied[-1], series.valid[-1] if series.valid else None] == [123, 497]
    assert [attempt["from_step"] for attempt in found.status["attempts"]] == [0]
    decoded, outcome = found.samples(600)
    assert len(decoded.symbols) == 32 and int(outcome.valid.sum()) > 25
    assert all(one.intact for one in verify_tree(old))


def test_settings_that_were_added_since_change_no_digest(old: Path) -> None:
    """Sweeps and campaigns find finished cells by digest: a new setting with its default must leave it as it was."""
    found = tc.load_run(old / "format-2")
    assert found.settings.digest() == found.manifest["origin"]
    for section, change in (("rule", {"scatter_seed": 0}), ("data", {"part": 1})):
        other = build(RunSettings, merge(found.manifest["settings"], {section: change}))
        assert other.digest() != found.manifest["origin"]


def test_a_stopped_run_of_format_2_goes_on_as_the_finished_one_did(old: Path) -> None:
    whole, stopped = tc.load_run(old / "format-2"), tc.load_run(old / "format-2-unfinished")
    before = stopped.metrics()
    done = run(replace(stopped.settings, description="continued"), stopped.path)
    after, expected = done.metrics(), whole.metrics()
    assert [attempt["from_step"] for attempt in done.status["attempts"]] == [0, 66]
    assert after["step"].tolist() == expected["step"].tolist()
    for name, values in before.items():
        assert np.array_equal(after[name][: len(values)], values, equal_nan=True), name
    next_row = len(before["step"])
    assert after["loss"][next_row] == pytest.approx(expected["loss"][next_row], rel=1e-3)
    assert after["trials"].tolist() == [512] * len(after["step"])


def test_a_continued_run_of_format_2_has_rows_of_both_forms_and_says_format_3(old: Path) -> None:
    stopped = tc.load_run(old / "format-2-unfinished")
    before = stopped.rows()
    assert stopped.manifest["format"] == 2 and all("sample_accuracy" in row for row in before)
    done = run(stopped.settings, stopped.path)
    rows, columns, series = done.rows(), done.metrics(), done.series()
    assert tc.load_run(done.path).manifest["format"] == 3 and verify_tree(done.path)[0].intact
    assert rows[: len(before)] == before and all("sample_accuracy" not in row for row in rows[len(before) :])
    for name in ("sample_accuracy", "sample_memorization", "valid_new"):
        assert all(type(hits) is int for hits in done.hits(name))
        assert np.array_equal(np.array(done.hits(name)) / 512, columns[name])
    assert series.valid == done.hits("sample_accuracy") and series.copied == done.hits("sample_memorization")
    assert series.parts is not None and np.allclose(series.parts["group"], 512 * columns["group_accuracy"], rtol=1e-12)
    with pytest.raises(UserError, match=r"'group_accuracy' .*no hits"):  # old rows do not say of how many groups
        done.hits("group_accuracy")


def test_hits_of_format_2_are_those_of_columns_that_count_samples(old: Path) -> None:
    found = tc.load_run(old / "format-2")
    columns = found.metrics()
    for name in ("sample_accuracy", "sample_memorization", "valid_new", "holdout_memorization", "invalid_0.5"):
        assert found.hits(name) == [round(512 * value) for value in columns[name]]
    for name in ("group_accuracy", "group_memorization", "distinct_new", "coverage_new", "nearest_distance"):
        with pytest.raises(UserError, match=f"{name!r} .*no hits; .*metrics"):
            found.hits(name)
    with pytest.raises(UnknownNameError, match="valid_new"):
        found.hits("valid_now")


class FirstEntry(Metric):
    """A metric that somebody adds while a run is stopped."""

    name: ClassVar[str] = "first_entry_is_one"

    def columns(self) -> list[Column]:
        return [Column(name=self.name, about="samples that begin with a one", direction="neither")]

    def __call__(self, samples: Samples) -> dict[str, Count]:
        return {self.name: proportion(samples.symbols[:, 0] == 1)}


def test_a_column_that_a_continued_run_adds_is_read_and_described(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = tc.load_run(old / "format-2-unfinished")
    count = len(stopped.rows())
    METRICS.names()
    monkeypatch.setattr(METRICS, "_members", {**METRICS._members, FirstEntry.name: FirstEntry})
    done = run(stopped.settings, stopped.path)
    values = done.metrics()[FirstEntry.name]
    assert np.isnan(values[:count]).all() and np.isfinite(values[count:]).all() and len(values) > count
    assert done.metric(FirstEntry.name).about == "samples that begin with a one"
    assert [entry["name"] for entry in done.manifest["metrics"]][:-1] == [
        e["name"] for e in stopped.manifest["metrics"]
    ]
    assert verify_tree(done.path)[0].intact
    with pytest.raises(UserError, match="no hits"):
        done.hits(FirstEntry.name)


def test_a_run_is_not_continued_without_a_metric_that_it_has(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = tc.load_run(old / "format-2-unfinished")
    before = {path: path.read_bytes() for path in stopped.path.rglob("*") if path.is_file()}
    METRICS.names()
    fewer = {name: metric for name, metric in METRICS._members.items() if name != "valid_new"}
    monkeypatch.setattr(METRICS, "_members", fewer)
    with pytest.raises(UserError, match=r"the column valid_new, .*no registered metric") as caught:
        run(stopped.settings, stopped.path)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in before} == before
