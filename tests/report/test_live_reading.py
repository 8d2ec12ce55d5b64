"""What the live page reads: only new bytes, checked; and a run that is killed, resumed, damaged or deleted under it."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_runs import GrowingRun
from many_runs import many_cells, write_cells

import twoclocks as tc
from twoclocks.analysis.forecasts import forecast_running
from twoclocks.report.live.catalogue import Catalogue
from twoclocks.report.live.panels import MOST_POINTS, thinned
from twoclocks.report.live.tail import Tail
from twoclocks.report.live.watched_monitor import WatchedMonitor
from twoclocks.report.live.watched_run import WatchedRun
from twoclocks.runs import Run
from twoclocks.store.checksums import encode_document
from twoclocks.store.lock import WriterLock


@pytest.fixture
def growing(tmp_path: Path, tiny_gpt: Run) -> GrowingRun:
    return GrowingRun(tiny_gpt, tmp_path / "runs" / "mine", evaluations=3)


def watched(growing: GrowingRun) -> WatchedRun:
    found = WatchedRun(growing.path, "runs/mine")
    found.poll()
    return found


def test_only_new_bytes_are_read(growing: GrowingRun) -> None:
    tail = Tail(growing.directory.journal)
    assert [row["step"] for row in tail.read().rows] == [0, 5, 20]
    before, line = tail.bytes_read, len(tail.line)
    assert tail.read().rows == [] and tail.bytes_read == before  # nothing is opened where nothing changed
    growing.add()
    found = tail.read()
    assert [row["step"] for row in found.rows] == [40] and not found.restarted
    assert tail.bytes_read - before == line + len(tail.line)  # the last known line once more, and the new one
    assert tail.link == growing.directory.journal.link


def test_a_line_that_is_being_written_is_waited_for(growing: GrowingRun) -> None:
    tail = Tail(growing.directory.journal)
    tail.read()
    growing.add()
    whole = growing.directory.journal.path.read_bytes()
    growing.directory.journal.path.write_bytes(whole[:-40])
    tail.read()
    assert tail.count == 3 and not tail.problem
    growing.directory.journal.path.write_bytes(whole)
    tail.read()
    assert tail.count == 4 and tail.link == growing.directory.journal.link


def test_a_file_that_was_truncated_is_read_anew(growing: GrowingRun) -> None:
    tail = Tail(growing.directory.journal)
    tail.read()
    growing.rewind(1)
    found = tail.read()
    assert found.restarted and [row["step"] for row in found.rows] == [0]
    growing.add(2)
    assert [row["step"] for row in tail.read().rows] == [5, 20]


def test_a_file_that_was_rewritten_between_two_readings_is_read_anew(growing: GrowingRun) -> None:
    tail = Tail(growing.directory.journal)
    tail.read()
    growing.rewind(1)
    for row in growing.rows[1:5]:  # in the same file, and longer than before: only the chain tells
        values = {key: value for key, value in row.items() if not isinstance(value, str)}
        growing.directory.append_metrics({**values, "loss": 7.0})
    found = tail.read()
    assert found.restarted and [row["loss"] for row in found.rows[1:]] == [7.0] * 4 and not tail.problem
    path = growing.directory.journal.path
    path.write_bytes(path.read_bytes())  # the same content once more
    assert not tail.read().restarted and tail.count == 5


@pytest.mark.parametrize("line", [0, 2])
def test_a_flipped_bit_is_damage_and_its_repair_is_seen(growing: GrowingRun, line: int) -> None:
    run = watched(growing)
    assert run.state == "unfinished"  # status says running, nobody holds the lock
    path = growing.directory.journal.path
    sound = path.read_bytes()
    lines = sound.splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"step": ', b'"step":1', 1)
    path.write_bytes(b"".join(lines))
    assert run.poll() is not None
    assert run.state == "damaged" and run.note.startswith(f"metrics.jsonl: line {line + 1} is damaged")
    path.write_bytes(sound)
    run.poll()
    assert run.state == "unfinished" and run.summary["evaluations"] == 3


def test_states_of_a_run_that_is_killed_resumed_and_finished(growing: GrowingRun) -> None:
    run = watched(growing)
    with WriterLock(growing.path):
        run.poll()
        assert run.state == "running" and run.summary["left"] is not None and run.note == ""
    run.poll()
    assert run.state == "unfinished" and "its process is gone" in run.note and run.summary["left"] is None
    growing.directory.set_status("running", attempts=[{"from_step": 0}, {"from_step": 5}])
    with WriterLock(growing.path):
        growing.rewind(2)
        change = run.poll()
        assert change is not None and change.points is None and run.summary["evaluations"] == 2
        assert run.state == "running" and run.note == "resumed from step 5 (attempt 2)"
        growing.add(3)
        change = run.poll()
        assert change is not None and [step for step, _ in change.points or []] == [20, 40, 60]
    growing.end("interrupted")
    run.poll()
    assert run.state == "interrupted"
    growing.end()
    run.poll()
    assert run.state == "finished" and run.summary["step"] == 60
    growing.rewind(4)
    run.poll()
    assert run.state == "damaged" and run.note == "metrics.jsonl: has 4 rows, the run ended with 5"


def test_a_run_that_is_deleted_replaced_or_without_manifest(growing: GrowingRun, tiny_dit: Run) -> None:
    run = watched(growing)
    shutil.rmtree(growing.path)
    assert run.poll() is not None and run.state == "deleted" and run.summary["evaluations"] == 3
    assert run.poll() is None
    shutil.copytree(tiny_dit.path, growing.path)
    run.poll()
    assert run.state == "finished" and run.summary["model"] == tiny_dit.title and run.summary["evaluations"] == 5
    (growing.path / "manifest.json").unlink()
    run.poll()
    assert run.state == "damaged" and run.note == "manifest.json: is missing"
    (growing.path / "manifest.json").write_text("{}", encoding="utf-8")
    run.poll()
    assert run.state == "damaged" and "manifest.json: is damaged" in run.note


def test_a_fork_says_so(tmp_path: Path, tiny_gpt: Run) -> None:
    origin = {"path": "first", "step": 20, "settings": {}}
    found = WatchedRun(tmp_path / "fork", "fork")
    GrowingRun(Forked(tiny_gpt, origin), tmp_path / "fork", 1)  # type: ignore[arg-type]
    found.poll()
    assert found.note.endswith("fork of first at step 20")


class Forked:
    """A run with another manifest."""

    def __init__(self, run: Run, origin: dict[str, Any]) -> None:
        self.directory, self.manifest = run.directory, {**run.manifest, "forked_from": origin}


def test_clocks_forecast_and_curves_are_those_of_the_commands(tiny_gpt: Run, tiny_dit: Run) -> None:
    for run in (tiny_gpt, tiny_dit):
        found = WatchedRun(run.path, "run")
        found.poll()
        clocks = run.clocks(changes=False)
        assert found.decision is not None and found.decision.clocks == clocks
        assert found.summary["rule"] == str(clocks.rule) and found.summary["memory"] == str(clocks.memory)
        page = found.page()
        valid = page["panels"][0]["curves"][0]
        steps, values = run.metrics()["step"], run.metrics()[valid["key"]]
        assert page["panels"][0]["steps"] == steps[steps > 0].tolist()
        assert valid["values"] == pytest.approx(values[steps > 0].tolist(), rel=1e-4)
        words = found.details()["forecast"]["text"]
        if clocks.memory.seen:
            assert words == f"no forecast: copying has begun (τ_mem {clocks.memory})"
        elif clocks.suspected is None:
            assert words.startswith(str(forecast_running(run, [])[0]))


def test_samples_have_their_originals(tiny_gpt: Run, twin_digits: tuple[Run, Run]) -> None:
    found = WatchedRun(tiny_gpt.path, "run")
    found.poll()
    samples = found.details()["samples"]
    assert samples["kind"] == "grid" and samples["step"] == 60 and len(samples["tiles"]) == 16
    train = tiny_gpt.evaluator.train.reshape(len(tiny_gpt.evaluator.train), -1).tolist()
    for tile in samples["tiles"]:
        cells = [cell for line in tile["sample"] for cell in line]
        assert (tile["original"] is not None) == (cells in train) == (tile["words"] == "copy of a training sample")
        assert tile["original"] in (None, tile["sample"])
    images = WatchedRun(twin_digits[0].path, "run")
    images.poll()
    assert images.details()["samples"]["tiles"][0]["original"].startswith("data:image/png")
    path = tiny_gpt.directory.artifacts["samples"].path(60)
    sound = path.read_bytes()
    try:
        path.write_bytes(sound[:-1] + b"x")
        found.version += 1
        assert "is damaged" in found.details()["samples"]["reason"]
    finally:
        path.write_bytes(sound)


def test_thinned_curves_keep_first_last_and_extremes() -> None:
    steps = np.arange(1.0, 20_001)
    noise = np.random.default_rng(0).normal(size=(3, len(steps)))
    noise[1, 12_345] = np.nan
    kept = thinned(steps, list(noise))
    assert len(kept) <= MOST_POINTS and {0, len(steps) - 1} <= set(kept.tolist())
    for column in noise:
        assert {int(np.nanargmin(column)), int(np.nanargmax(column))} <= set(kept.tolist())
    assert thinned(steps[:400], list(noise[:, :400])).tolist() == list(range(400))


@pytest.mark.parametrize("form", ["saved", "json"])
def test_a_monitor_state_is_followed(tmp_path: Path, form: str) -> None:
    rule = tc.rules.create("parity", length=36, group=3)
    train = tc.data.training_set(rule, n=32, seed=0)
    monitor = tc.Monitor(rule=rule, train=train)
    path = tmp_path / "loop" / "monitor.json"
    path.parent.mkdir()

    def store() -> None:
        monitor.save(path) if form == "saved" else path.write_text(json.dumps(monitor.state()), encoding="utf-8")

    monitor.observe(10, rule.sample(200, seed=1))
    store()
    catalogue = Catalogue([tmp_path])
    catalogue.discover()
    (found,) = catalogue.entries.values()
    assert isinstance(found, WatchedMonitor)
    found.poll()
    for step in (20, 30, 40):
        decision = monitor.observe(step, train[:32])
    store()
    change = found.poll()
    assert change is not None and [step for step, _ in change.points or []] == [20, 30, 40]
    page = found.page()
    assert page["decision"]["phase"] == decision.phase == "copying"
    assert page["decision"]["reason"] == decision.reason and page["run"]["memory"] == str(decision.clocks.memory)
    path.write_text(path.read_text(encoding="utf-8").replace('"copied": 32', '"copied": 3x'), encoding="utf-8")
    found.poll()
    assert found.state == "damaged"
    path.unlink()
    found.poll()
    assert found.state == "deleted"


def test_a_sweep_counts_its_cells_and_links_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "given", tmp_path / "outside"
    plan = many_cells(1)
    write_cells(root / "many", plan)
    cells = {cell.key: {} for cell in plan.cells} | {"waiting-cell": {}}
    (root / "many" / "sweep.json").write_bytes(encode_document({"name": "many", "cells": cells}))
    shutil.copytree(root / "template", outside / "run")
    (root / "link").symlink_to(outside)
    catalogue = Catalogue([root])
    catalogue.discover()
    assert all(entry.path.is_relative_to(root.resolve()) for entry in catalogue.entries.values())
    assert not [entry for entry in catalogue.entries.values() if "link" in entry.folder]
    for entry in catalogue.entries.values():
        entry.poll()
    assert catalogue.sweeps()[0]["states"] == {"finished": 10, "waiting": 1}
    assert {row["sweep"] for row in catalogue.rows()} == {"many", ""}
    shutil.rmtree(outside / "run" / "samples")
    inside = root / "template" / "samples"
    shutil.move(inside, outside / "samples")
    inside.symlink_to(outside / "samples")
    (broken,) = [entry for entry in catalogue.entries.values() if entry.path.name == "template"]
    os.utime(root / "template" / "manifest.json")
    broken.poll()
    assert broken.state == "damaged" and "symbolic link" in broken.note


def fingerprint(folder: Path) -> dict[str, Any]:
    """Every name below a folder with its content, time and number."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.stat().st_ino,
            path.is_file() and path.read_bytes(),
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }


def test_nothing_is_written(growing: GrowingRun, tiny_dit: Run) -> None:
    folder = growing.path.parent
    shutil.copytree(tiny_dit.path, folder / "other")
    (folder / "other" / "lock").write_text("{}", encoding="utf-8")  # of a process that is gone
    (folder / "other").chmod(0o555)
    before = fingerprint(folder)
    catalogue = Catalogue([folder])
    catalogue.discover()
    for entry in catalogue.entries.values():
        entry.glance()
        entry.poll()
        entry.page()
        entry.details()
    assert fingerprint(folder) == before
    (folder / "other").chmod(0o755)


def test_a_writer_is_not_disturbed(growing: GrowingRun) -> None:
    run, done = watched(growing), threading.Event()

    def read() -> None:
        while not done.is_set():
            run.poll()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(20):
            with WriterLock(growing.path) as lock:
                lock.check()
    finally:
        done.set()
        thread.join()
