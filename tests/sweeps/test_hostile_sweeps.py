"""Sweeps of hostile files: grids without an end, seeds of any size, damaged rows under ``--status``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from broken_output import KINDS, broken_output
from pyarrow import parquet
from small_sweep import write_spec

from twoclocks.cli import main
from twoclocks.core.errors import UserError
from twoclocks.sweeps import read_plan
from twoclocks.sweeps.cells import last_step
from twoclocks.sweeps.grid import axis_values
from twoclocks.sweeps.table import with_one_type

LARGE = 10**400
HOSTILE: dict[str, dict[str, Any]] = {
    "end with 400 digits": {"data.n": {"from": 2, "to": LARGE}},
    "begin with 400 digits": {"data.n": {"from": -LARGE, "to": 2}},
    "step with 400 digits": {"data.n": {"from": 2, "to": 8, "step": LARGE}},
    "tiny steps": {"training.learning_rate": {"from": 1e-300, "to": 1e300, "step": 5e-324}},
    "wide": {"data.n": {"from": -(10**308), "to": 10**308, "count": 3}},
    "wide, in the logarithm": {"training.learning_rate": {"from": 1e-308, "to": 1e308, "count": 9, "spacing": "log"}},
    "count with 400 digits": {"data.n": {"from": 2, "to": 8, "count": LARGE}},
    "key is a number": {5: [1], 5.5: [2], "data.n": [4]},  # type: ignore[dict-item]
    "many axes": {f"a{i}": {"from": 0, "to": 99_999} for i in range(500)},
    "many axes of one value": {f"a{i}.b": [1] for i in range(5_000)},
    "dots": {".".join("a" * 1200): [1]},
    "infinite": {"data.n": {"from": 2, "to": float("inf")}},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_grids_are_one_line_at_once(case: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "x.yaml", grid=HOSTILE[case])
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        read_plan(spec)
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 1000
    assert time.process_time() - begin < 10  # 1 s for the largest file


def test_ranges_keep_their_values() -> None:
    assert axis_values("x", {"from": 1, "to": 10, "step": 4}) == [1, 5, 9]
    assert axis_values("x", {"from": 0.1, "to": 0.5, "step": 0.1}) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert axis_values("x", {"from": 10**200, "to": 10**200 + 2}) == [10**200, 10**200 + 1, 10**200 + 2]


def test_files_that_name_each_other_in_a_circle_of_different_paths(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.yaml").write_text("base: ../a/x.yaml", encoding="utf-8")
    with pytest.raises(UserError, match="in a circle"):
        read_plan(write_spec(tmp_path / "x.yaml", base="a/x.yaml"))


@pytest.mark.parametrize("kind", ["full", "latin-1"])
def test_a_sweep_with_seeds_of_any_size_has_its_table(kind: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [2**64, -(2**70)] if kind == "full" else [2**63]
    short = {"training.steps": 2, "evaluation.steps": [0, 2]}
    spec = write_spec(work / "law.yaml", set=short, seeds={"training": seeds})
    with broken_output(kind, monkeypatch):
        assert main(["sweep", str(spec), "--out", "law", "--workers", "1"]) == KINDS[kind]
    table = parquet.read_table(work / "law" / "table.parquet")
    assert table["training.seed"].to_pylist() == [str(seed) for seed in seeds]
    assert set(table["state"].to_pylist()) == {"finished"}
    assert str(seeds[0]) in (work / "law" / "table.csv").read_text(encoding="utf-8")


def test_integers_beyond_64_bits_become_text() -> None:
    assert with_one_type([2**63, None, 1]) == [str(2**63), None, "1"]
    assert with_one_type([0.5, -(2**63) - 1]) == ["0.5", str(-(2**63) - 1)]
    assert with_one_type([2**63 - 1, -(2**63)]) == [2**63 - 1, -(2**63)]
    assert with_one_type([True, None]) == [True, None]


@pytest.mark.parametrize(
    "line", [b"5", b"[]", b"null", b'"x"', b'{"step": null}', b'{"step": 1e400}', b'{"step": []}', b"[" * 900, b"\xff"]
)
def test_a_damaged_row_does_not_stop_the_status(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "timings.jsonl").write_bytes(b'{"step": 3}\n' + line + b"\n")
    assert last_step(tmp_path) == 0


def test_the_status_waits_for_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "timings.jsonl")
    assert last_step(tmp_path) == 0
    (tmp_path / "timings.jsonl").unlink()
    (tmp_path / "timings.jsonl").symlink_to("/dev/zero")
    assert last_step(tmp_path) == 0
    (tmp_path / "timings.jsonl").unlink()
    (tmp_path / "timings.jsonl").write_bytes(b"x" * 5000 + b'\n{"step": 3}\n{"step": 7}\n{"st')
    assert last_step(tmp_path) == 7
