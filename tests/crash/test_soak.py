"""The short form of the soak, and that it would notice what must not happen."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soak
from forked import Forked, Send
from soak_rows import ROW_FAULTS, prepare_rows
from soak_run_faults import RUN_FAULTS
from soak_runs import Reference, prepare
from soak_states import STATE_FAULTS, prepare_states
from trials import Trial, WrongError

from twoclocks.store import files, lock
from twoclocks.store.journal import Entry, Journal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    soak.warm_up()
    return prepare("demo-gpt", tmp_path_factory.mktemp("soak") / "demo-gpt", unfinished=3)


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "TIMEOUT", 0.1)


def attempt(folder: Path, fault: Callable[[Trial, Any], str], reference: Any, number: int) -> str:
    """One trial with a fault of choice: its outcome, and that nothing outside its folder has changed."""
    trial = Trial(number, random.Random(number), folder / f"trial-{number}")
    trial.guard_outside()
    try:
        outcome = fault(trial, reference)
        trial.check_outside()
        return outcome
    finally:
        trial.close(keep=False)


@pytest.mark.parametrize(
    ("fault", "trials", "expected"),
    [
        ("kill -9 at disk calls", 3, {"equal"}),
        ("power cut", 3, {"equal"}),
        ("ENOSPC at a disk call", 2, {"equal"}),
        ("several writers at once", 1, {"equal"}),
        ("readers beside a writer", 1, {"equal"}),
        ("bit flipped", 4, {"equal", "detected"}),
        ("file times changed", 2, {"equal"}),
    ],
)
def test_runs(tmp_path: Path, gpt: Reference, fault: str, trials: int, expected: set[str]) -> None:
    for number in range(20, 20 + trials):
        assert attempt(tmp_path, RUN_FAULTS[fault][1], gpt, number) in expected


def test_states_and_rows(tmp_path: Path) -> None:
    states, rows = prepare_states(tmp_path / "states"), prepare_rows(tmp_path / "rows")
    for number, fault in enumerate(["kill -9 at disk calls", "bit flipped", "power cut", "document forged"]):
        assert attempt(tmp_path, STATE_FAULTS[fault][1], states, number) in {"equal", "detected"}
        assert attempt(tmp_path, ROW_FAULTS[fault][1], rows, 100 + number) in {"equal", "detected"}


def test_it_notices_what_must_not_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong on purpose: rows whose checksum nobody compares, files that are written in place, a command that hangs."""
    rows, states = prepare_rows(tmp_path / "rows"), prepare_states(tmp_path / "states")

    def trusting(self: Journal) -> tuple[list[Entry], str | None]:
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        found = []
        for line in lines:
            row = json.loads(line)
            found.append(Entry(row, row.pop("link"), sum(map(len, lines[: len(found) + 1]))))
        return found, None

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "entries", trusting)
        with pytest.raises(WrongError, match=r"never written|traceback"):
            for number in range(10):
                attempt(tmp_path, ROW_FAULTS["bit flipped"][1], rows, number)
    with monkeypatch.context() as patched:
        patched.setattr("twoclocks.monitor.state.write_atomic", in_place)
        with pytest.raises(WrongError, match=r"neither the state before nor the new one|refused"):
            for number in range(10):
                attempt(tmp_path, STATE_FAULTS["kill -9 at disk calls"][1], states, 20 + number)
    with monkeypatch.context() as patched:
        patched.setattr("soak_states.go_on", lambda path, looks: time.sleep(60))
        patched.setattr("forked.LIMIT", [0.3])
        with pytest.raises(WrongError, match="hangs"):
            attempt(tmp_path, STATE_FAULTS["bit flipped"][1], states, 50)


def in_place(path: Path, data: bytes) -> None:
    with files.opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        for at in range(0, len(data), 500):
            files.write_all(descriptor, data[at : at + 500])


def test_a_soak_that_is_killed_keeps_its_counts(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    words = ["soak.py", "--out", str(out), "--only", "committed rows: kill", "--folder", str(tmp_path)]

    def start(minutes: float) -> Forked:
        def run(send: Send) -> int:
            sys.argv = [*words, "--minutes", str(minutes)]
            return soak.main()

        return Forked(run)

    soak.warm_up()
    first, until = start(minutes=5), time.monotonic() + 60
    while len(rows_of(out)) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    first.kill_all()
    first.wait()
    kept = len(rows_of(out))
    assert start(minutes=0.03).wait().code == 0
    counted, numbers = json.loads(out.read_text()), [row["number"] for row in rows_of(out)]
    assert kept >= 3 and counted["trials"] == len(numbers) > kept and len(set(numbers)) == len(numbers)
    assert sum(row["tried"] for row in counted["runs"]) == counted["trials"]


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [row for row in soak.rows_in(out.with_suffix(".jsonl")) if "outcome" in row]
