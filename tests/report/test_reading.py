"""A page reads the rows of each run once, and its clocks once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twoclocks.clocks import Clocks, ClockSettings, Series
from twoclocks.report.page import write_report
from twoclocks.report.summary import summarise
from twoclocks.runs import Run, RunReading
from twoclocks.runs import run as train
from twoclocks.store import files


@pytest.fixture
def journal_reads(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """How often the metrics of each run directory were read since the test began."""
    found: Counter[Path] = Counter()
    read = files.read

    def counted(path: Path, most: int | None = None) -> bytes:
        if path.name == "metrics.jsonl":
            found[path.parent] += 1
        return read(path, most)

    monkeypatch.setattr(files, "read", counted)
    return found


@pytest.fixture(scope="module")
def sizes(tiny_gpt: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Runs of three sizes, which laws and phases need, two of them twins."""
    folder = tmp_path_factory.mktemp("sizes")

    def other(n: int, part: int) -> Run:
        data = replace(tiny_gpt.settings.data, n=n, part=part)
        return train(replace(tiny_gpt.settings, data=data), folder / f"n{n}-{part}")

    return [tiny_gpt, other(4, 1), other(3, 0), other(5, 0)]


@pytest.mark.usefixtures("empty_figures")
def test_a_page_reads_the_rows_and_the_clocks_of_each_run_once(
    sizes: list[Run], journal_reads: Counter[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own: Counter[int] = Counter()  # by series: how often it was read with the settings of the runs
    settings, read = sizes[0].settings.clocks, ClockSettings.read

    def counted(self: ClockSettings, series: Series, *more: Any, **named: Any) -> Clocks:
        own[id(series)] += self == settings
        return read(self, series, *more, **named)

    monkeypatch.setattr(ClockSettings, "read", counted)
    page = write_report(sizes, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Twins" in page and "Phases" in page and "Laws" in page  # the chapters that read several runs
    assert journal_reads == dict.fromkeys((run.path for run in sizes), 1)
    assert sum(own.values()) == len(sizes)


def test_a_summary_reads_the_rows_once(tiny_gpt: Run, journal_reads: Counter[Path]) -> None:
    found = summarise(tiny_gpt)
    assert journal_reads == {tiny_gpt.path: 1} and found["last"]["step"] == 60


def test_a_reading_says_what_the_run_says(tiny_dit: Run) -> None:
    reading = tiny_dit.reading()
    assert isinstance(reading, RunReading) and reading.reading() is reading
    assert (
        reading.clocks() == reading.clocks(changes=False) == tiny_dit.clocks() and reading.series() == tiny_dit.series()
    )
    for name, values in tiny_dit.metrics().items():
        assert np.array_equal(reading.metrics()[name], values, equal_nan=True), name
    with pytest.raises(TypeError, match="reading only"):
        reading.directory.append_metrics({"step": 99})
