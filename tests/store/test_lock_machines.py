"""Two machines, one shared directory: real processes that race, freeze and wake up, their clocks 14 minutes apart."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hosts import Host

from twoclocks.store import lock
from twoclocks.store.lock import LockedError, LostLockError, WriterLock
from twoclocks.store.run_directory import RunDirectory

FORK = multiprocessing.get_context("fork")
HEARTBEAT, TIMEOUT, SETTLE = 0.05, 1.5, 0.5  # seconds; a busy machine may keep a process waiting for long
AHEAD, BEHIND = Host("ahead", 1, clock=420), Host("behind-the-others", 2, clock=-420)
PAIRS = {
    "clocks apart": (AHEAD, BEHIND),
    "no locks at all": (Host("ahead", 1, clock=420, flock=False), Host("behind", 2, clock=-420, flock=False)),
    "no locks, one machine": (Host("one", 1, flock=False, shared=False),) * 2,
    "same name": (Host("localhost", 1), Host("localhost", 2, boot="another")),
}


def become(host: Host) -> None:
    """From now on this process runs on another machine."""
    lock.HEARTBEAT, lock.TIMEOUT, lock.SETTLE, lock.PROBE = HEARTBEAT, TIMEOUT, SETTLE, 0.05
    lock.fcntl = host.fcntl()  # type: ignore[assignment]
    lock.boot_id = lambda: host.boot  # type: ignore[assignment]
    lock.is_shared = lambda folder: host.shared
    socket.gethostname = lambda: host.name
    os.utime = lambda descriptor: host.touch(descriptor, time.time())  # type: ignore[assignment, misc]


def start(work: Callable[..., None], host: Host, *arguments: object) -> tuple[BaseProcess, Connection]:
    here, there = FORK.Pipe()

    def on_that_host() -> None:
        become(host)
        work(there, *arguments)

    child = FORK.Process(target=on_that_host)
    child.start()
    there.close()
    return child, here


def hear(pipe: Connection) -> object:
    assert pipe.poll(20), "nothing was heard"
    return pipe.recv()


def race(pipe: Connection, folder: Path, rounds: int, barrier: Barrier) -> None:
    """Begin at the same time as the others, again and again; who wins writes a line, and looks whether it is alone."""
    for number in range(rounds):
        barrier.wait(20)
        won = False
        try:
            with WriterLock(folder) as held:
                held.check()
                with (folder / f"written-{number}").open("x") as stream:  # an error if there is one already
                    stream.write(held.token)
                won = True
                barrier.wait(20)  # all others were refused
                held.check()
        except LockedError:
            barrier.wait(20)
        pipe.send(won)
        barrier.wait(20)


@pytest.mark.parametrize("pair", PAIRS)
def test_of_two_that_begin_at_once_exactly_one_wins(pair: str, tmp_path: Path) -> None:
    barrier, rounds = FORK.Barrier(3), 2
    racers = [start(race, host, tmp_path, rounds, barrier) for host in (*PAIRS[pair], PAIRS[pair][0])]
    wins = [[hear(pipe) for _, pipe in racers] for _ in range(rounds)]
    for child, _ in racers:
        child.join()
    assert [sum(map(bool, one)) for one in wins] == [1] * rounds
    assert len(list(tmp_path.glob("written-*"))) == rounds


def write_on(pipe: Connection, path: Path, first: int) -> None:
    """Write to a run, one step whenever told to, until the lock is lost."""
    step = first
    try:
        with WriterLock(path) as held:
            run = RunDirectory(path, guard=held.check)
            if run.begun:
                run.rewind(run.last_good())
            else:
                run.begin({"settings": {}})
            pipe.send("holds it")
            while pipe.recv() == "write":
                import torch

                written = run.artifacts["samples"].write(step, {"value": torch.tensor([step])})
                run.append_metrics({"step": step, "x": first + 0.5}, {"samples": written})
                run.timings.append({"step": step, "seconds": 1.0, "evaluation_seconds": 0.5})
                run.write_checkpoint(step, {"value": torch.tensor([step])})
                run.set_status("running")
                step += 1
                pipe.send(step)
    except LostLockError as error:
        pipe.send(f"lost: {error}")
    except LockedError as error:
        pipe.send(f"refused: {error}")


def content(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("pair", ["clocks apart", "no locks at all"])
def test_a_frozen_machine_loses_the_lock_and_writes_nothing_when_it_wakes_up(pair: str, tmp_path: Path) -> None:
    first, second = PAIRS[pair]
    frozen, of_frozen = start(write_on, first, tmp_path, 100)
    assert hear(of_frozen) == "holds it"
    of_frozen.send("write")
    assert hear(of_frozen) == 101
    _, of_refused = start(write_on, second, tmp_path, 200)
    refused = str(hear(of_refused))  # while the first one lives, for however long the second one watches
    assert "refused" in refused and f"process {frozen.pid} on {first.name} is writing to it" in refused
    os.kill(frozen.pid or 0, signal.SIGSTOP)
    try:
        other, of_other = start(write_on, second, tmp_path, 200)
        assert hear(of_other) == "holds it"
        of_other.send("write")
        assert hear(of_other) == 201
        before = content(tmp_path)
    finally:
        os.kill(frozen.pid or 0, signal.SIGCONT)
    of_frozen.send("write")
    lost = str(hear(of_frozen))
    assert "lost" in lost and f"process {other.pid} on {second.name} took it over; this process stops" in lost
    frozen.join()
    assert content(tmp_path) == before and json.loads(before[str(tmp_path / "lock")])["process"] == other.pid
    of_other.send("write")  # the other one is not disturbed
    assert hear(of_other) == 202
    of_other.send("end")
    other.join()
    run = RunDirectory.open(tmp_path)
    assert [(row["step"], row["x"]) for row in run.metrics()] == [(100, 100.5), (200, 200.5), (201, 200.5)]
    assert not (tmp_path / "lock").exists()


def test_a_machine_that_died_is_waited_for_once(tmp_path: Path) -> None:
    dead, of_dead = start(write_on, AHEAD, tmp_path, 100)
    assert hear(of_dead) == "holds it"
    dead.kill()
    dead.join()
    begin = time.monotonic()
    other, of_other = start(write_on, BEHIND, tmp_path, 200)
    assert hear(of_other) == "holds it" and TIMEOUT + SETTLE <= time.monotonic() - begin < TIMEOUT + SETTLE + 5
    of_other.send("end")
    other.join()
