"""One writer per directory: a running process keeps its lock, a dead one loses it, on this machine and on others."""

from __future__ import annotations

import fcntl
import json
import logging
import multiprocessing
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from twoclocks.store import lock
from twoclocks.store.lock import LockedError, WriterLock, is_held

FORK = multiprocessing.get_context("fork")


def hold(folder: Path, ready: object) -> None:
    with WriterLock(folder):
        ready.set()  # type: ignore[attr-defined]
        time.sleep(60)


def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with WriterLock(tmp_path):
        assert is_held(tmp_path)
        with pytest.raises(LockedError, match=f"process {os.getpid()} on {socket.gethostname()} is writing to it"):
            WriterLock(tmp_path).__enter__()
    assert not is_held(tmp_path) and list(tmp_path.iterdir()) == []
    with WriterLock(tmp_path):
        pass


def test_the_lock_of_a_killed_process_is_taken_over_with_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ready = FORK.Event()
    child = FORK.Process(target=hold, args=(tmp_path, ready))
    child.start()
    assert ready.wait(10)
    with pytest.raises(LockedError, match=f"process {child.pid} "):
        WriterLock(tmp_path).__enter__()
    child.kill()
    child.join()
    assert (tmp_path / "lock").exists()
    with caplog.at_level(logging.INFO, "twoclocks"), WriterLock(tmp_path) as held:
        held.check()
        assert json.loads((tmp_path / "lock").read_text())["process"] == os.getpid()
    assert f"process {child.pid} on {socket.gethostname()} left its lock behind; taken over" in caplog.text


def test_a_silent_holder_on_another_machine_is_taken_over_and_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a shared disk whose locks do not work between machines, only the heartbeat decides."""
    (tmp_path / "lock").write_text(json.dumps({"process": 5, "host": "elsewhere", "token": "x"}))
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.02):
            os.utime(tmp_path / "lock")

    thread = threading.Thread(target=beat)
    thread.start()
    monkeypatch.setattr(lock, "TIMEOUT", 2)
    with pytest.raises(LockedError, match="process 5 on elsewhere is writing to it"):
        WriterLock(tmp_path).__enter__()
    done.set()
    thread.join()
    begin = time.monotonic()
    monkeypatch.setattr(lock, "TIMEOUT", 0.3)
    with WriterLock(tmp_path):
        assert time.monotonic() - begin >= 0.3


def test_is_held_does_not_block_writers(tmp_path: Path) -> None:
    """A process that tests for a lock must not look like a writer, neither to a writer nor to another test."""
    (tmp_path / "lock").write_text("{}")
    done = threading.Event()
    seen: list[bool] = []

    def look() -> None:
        while not done.is_set():
            seen.append(is_held(tmp_path))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.1)
        assert not any(seen)
        for _ in range(30):
            with WriterLock(tmp_path):
                pass
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_lock_without_a_named_holder_is_waited_for(tmp_path: Path) -> None:
    """Readers that test for a lock can hold it longer than usual on a busy machine; they write no name into it."""
    path = tmp_path / "lock"
    path.write_text("{}")
    with path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        release = threading.Timer(3 * lock.PROBE, fcntl.flock, (reader, fcntl.LOCK_UN))
        release.start()
        with WriterLock(tmp_path):
            pass
        release.join()


def test_the_holder_sends_heartbeats_and_notices_that_it_lost_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT", 0.02)
    with WriterLock(tmp_path) as held:
        seen = (tmp_path / "lock").stat().st_mtime_ns
        time.sleep(0.2)
        assert (tmp_path / "lock").stat().st_mtime_ns > seen
        held.check()
        (tmp_path / "lock").write_text(json.dumps({"process": 5, "host": "elsewhere", "token": "x"}))
        with pytest.raises(LockedError, match="process 5 on elsewhere took it over"):
            held.check()
    assert (tmp_path / "lock").exists()  # it is the other's now
