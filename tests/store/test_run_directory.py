from __future__ import annotations

import errno
import math
import os
from pathlib import Path

import pytest
import torch

from twoclocks.core.errors import UserError
from twoclocks.store import RunDirectory, files
from twoclocks.store.checksums import decode_document, encode_document, encode_line
from twoclocks.store.files import DiskError, write_atomic
from twoclocks.store.run_directory import Snapshot


def make(path: Path) -> RunDirectory:
    return RunDirectory.create(path / "run", {"settings": {}})


def test_metrics_round_trip_with_nan_and_a_torn_tail(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.append_metrics({"step": 1, "x": 0.25, "y": math.nan})
    run.append_metrics({"step": 2, "x": 0.5, "y": 3.0})
    with (run.path / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 3, "x"')  # a crash in the middle of a line
    rows = list(run.metrics())
    assert [row["step"] for row in rows] == [1, 2] and math.isnan(rows[0]["y"]) and rows[1]["y"] == 3.0


def test_a_snapshot_stays_as_it_was_when_the_run_finishes(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.append_metrics({"step": 1, "x": 0.25})
    run.set_status("running")
    before, of_artifacts = Snapshot(run.path), Snapshot(run.path)
    assert [row["step"] for row in before.metrics()] == [1]
    assert of_artifacts.artifact_steps("samples") == {}  # reads the rows too
    run.append_metrics({"step": 2, "x": 0.5})
    run.finish()
    assert [row["step"] for row in before.metrics()] == [1] and before.status()["status"] == "running"
    assert [row["step"] for row in of_artifacts.metrics()] == [1]
    after = Snapshot(run.path)
    assert [row["step"] for row in after.metrics()] == [1, 2] and after.status()["status"] == "finished"


@pytest.mark.parametrize("kind", [RunDirectory, Snapshot])
def test_a_run_that_finishes_while_its_rows_are_read_is_not_damaged(
    kind: type[RunDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, read, rows_read = make(tmp_path), files.read, []
    run.append_metrics({"step": 1, "x": 0.25})
    run.set_status("running")

    def read_then_finish(path: Path, most: int | None = None) -> bytes:
        data = read(path, most)
        if path.name == "metrics.jsonl" and not rows_read:
            rows_read.append(path)
            run.append_metrics({"step": 2, "x": 0.5})
            run.finish()
        return data

    monkeypatch.setattr(files, "read", read_then_finish)
    assert [row["step"] for row in kind(run.path).metrics()] == [1] and rows_read
    assert run.finished


def test_a_step_never_appears_twice(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.append_metrics({"step": 5})
    for step in (5, 4):
        with pytest.raises(ValueError, match=f"step {step} is not after step 5"):
            run.append_metrics({"step": step})
    line, _ = encode_line({"step": 5}, run.journal.link)  # with a correct checksum, written by another process
    with (run.path / "metrics.jsonl").open("ab") as stream:
        stream.write(line)
    with pytest.raises(UserError, match=r"line 2 is damaged \(its step is not after"):
        list(run.metrics())


def test_a_row_that_does_not_fit_whole_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path)
    run.append_metrics({"step": 1})

    def half(descriptor: int, data: bytes) -> int:
        os.write(descriptor, bytes(data)[:7])
        raise OSError(errno.ENOSPC, "disk full")

    with monkeypatch.context() as patch:
        patch.setattr(files.disk, "write", half)
        with pytest.raises(DiskError):
            run.append_metrics({"step": 2})
    run.append_metrics({"step": 3})
    assert [row["step"] for row in run.metrics()] == [1, 3]


def test_damage_in_the_middle_of_the_metrics_is_reported(tmp_path: Path) -> None:
    run = make(tmp_path)
    for step in (1, 2, 3):
        run.append_metrics({"step": step})
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step": 2', b'"step": 4'))
    with pytest.raises(UserError, match="line 2 is damaged"):
        list(run.metrics())


def test_checkpoints_round_trip_and_only_the_last_two_stay(tmp_path: Path) -> None:
    run = make(tmp_path)
    for step in (10, 20, 30):
        run.write_checkpoint(step, {"weight": torch.full((3,), float(step)), "count": torch.tensor(step)})
    assert run.checkpoint_steps() == [20, 30]
    assert len(list((run.path / "checkpoints").iterdir())) == 4
    last = run.read_checkpoint()
    assert last.step == 30 and torch.equal(last.tensors["weight"], torch.full((3,), 30.0))
    assert int(run.read_checkpoint(20).tensors["count"]) == 20


@pytest.mark.parametrize("position", [0, 8, 60, -1])
def test_a_flipped_bit_is_never_loaded(tmp_path: Path, position: int) -> None:
    run = make(tmp_path)
    run.write_checkpoint(5, {"weight": torch.zeros(8)})
    path = run.path / "checkpoints" / "step-000000005.safetensors"
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged"):
        run.read_checkpoint()


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(DiskError, match="disk full; free some space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_folder_with_anything_in_it_is_refused_and_untouched(tmp_path: Path) -> None:
    run = make(tmp_path)
    before = (run.path / "manifest.json").read_bytes()
    with pytest.raises(UserError, match="already holds a run"):
        RunDirectory.create(run.path, {})
    assert (run.path / "manifest.json").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"):
        RunDirectory.create(tmp_path / "other", {})
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="symbolic link"):
        RunDirectory.create(tmp_path / "link", {})


def test_other_formats_and_non_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run directory"):
        RunDirectory.open(tmp_path)
    run = make(tmp_path)
    manifest = decode_document((run.path / "manifest.json").read_bytes())
    (run.path / "manifest.json").write_bytes(encode_document({**manifest, "format": 99}))
    with pytest.raises(UserError, match="format 99"):
        RunDirectory.open(run.path)
    (run.path / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        RunDirectory.open(run.path)
