"""The page of many runs: bounded in size, complete in numbers, read once, and without a chapter per run."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import pytest
from many_runs import many_cells, write_cells
from test_report import Collector

from twoclocks.analysis import fit_runs, phase_diagram
from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.report import laws, places
from twoclocks.report.overview import FEW
from twoclocks.report.places import check_owner
from twoclocks.runs import Run
from twoclocks.runs.digest import digest_run
from twoclocks.store import files, verify_tree
from twoclocks.sweeps.grid import Plan

Many = tuple[Path, Plan]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Many:
    root, plan = tmp_path_factory.mktemp("many") / "sweep", many_cells(seeds=8)
    write_cells(root, plan)
    return root, plan


def test_copies_of_a_run_are_intact(many: Many) -> None:
    found = verify_tree(many[0])
    assert len(found) == 80 and all(one.intact and not one.harmless for one in found)


def test_a_page_of_many_runs_is_bounded_and_names_all_of_them(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    root, plan = many
    reads: Counter[str] = Counter()
    read = files.read

    def counted(path: Path, most: int | None = None) -> bytes:
        reads[path.name] += 1
        return read(path, most)

    monkeypatch.setattr(files, "read", counted)
    monkeypatch.setattr(places, "_HEAD", 500)  # as if there were thousands of runs, whose marks need more
    monkeypatch.setattr(laws, "MOST_POINTS", 60)
    assert len(plan.cells) > FEW and main(["report", str(root)]) == 0
    assert reads["metrics.jsonl"] == len(plan.cells), "each run is read once"
    assert reads["manifest.json"] <= 6 * len(plan.cells) and not reads["timings.jsonl"]
    path = root.parent / "sweep-report.html"
    page = path.read_text(encoding="utf-8")
    collector = Collector()
    collector.feed(page)
    assert collector.open == [] and len(collector.ids) == len(set(collector.ids))
    assert all(f"<td>{cell.key}</td>" in page for cell in plan.cells)
    assert page.count('<meta name="twoclocks-run"') == len(plan.cells)
    for words in ("Phases: what is learned", "τ_mem = ", "All runs", "twoclocks report sweep/cells/RUN", "N^"):
        assert words in page
    assert "All onsets" not in page and "Generated samples" not in page and "All metrics" not in page
    assert len(page) < 1_000_000  # of which the figures are about half, however many runs there are
    width, height = struct.unpack(">II", path.with_suffix(".png").read_bytes()[16:24])
    assert width < 2000 and height < 2000
    check_owner(path, [Run(root / "cells" / cell.key) for cell in plan.cells])
    with pytest.raises(UserError, match="another run"):
        check_owner(path, [Run(root / "cells" / cell.key) for cell in plan.cells[:-1]])
    rows = page[page.index('<h2 id="runs">All runs') :]
    assert rows.index(plan.cells[0].key) < rows.index(plan.cells[-1].key)  # by settings, not by hash


def test_digests_give_the_numbers_of_their_runs(many: Many) -> None:
    runs = [Run(many[0] / "cells" / cell.key) for cell in many[1].cells[::2]]
    digests = [digest_run(run) for run in runs]
    for run, digest in zip(runs, digests, strict=True):
        assert digest.clocks() == run.clocks() and digest.clocks(changes=False) == run.clocks(changes=False)
        assert digest.settings == run.settings and digest.label == run.label and digest.title == run.title
        assert digest.status["status"] == "finished" and digest.unproven_end == run.unproven_end == ""
    assert fit_runs(digests, "tau_rule").as_json() == fit_runs(runs, "tau_rule").as_json()
    assert phase_diagram(digests).as_json() == phase_diagram(runs).as_json()
