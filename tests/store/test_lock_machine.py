"""The lock under any interleaving of writers on four machines, in simulated time, on a disk without common locks.

Every writer is a thread that runs only when the test lets it, from one system call to the next. Time passes only
when all who are awake wait for it: the protocol rests on a check and the write after it taking less than ``SETTLE``.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from dying_disk import machine_settings
from hosts import Host
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from twoclocks.store import files, lock
from twoclocks.store.files import Disk
from twoclocks.store.lock import LockedError, LostLockError, WriterLock

HOSTS = [
    Host("first", 1, clock=420),
    Host("second-with-a-longer-name", 2, clock=-420),
    Host("first", 3, boot="another"),  # two containers of the same name
    Host("fourth", 4, flock=False),
]
ALONE = Host("alone", 5, flock=False, shared=False)  # a disk of one machine, without locks
LOCAL = threading.local()


class Killed(BaseException):
    """The process of this thread is killed."""


class Act(threading.Thread):
    """Something that a writer does, with a pause before each system call."""

    def __init__(self, world: World, writer: Writer, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.world, self.writer, self.work = world, writer, work
        self.go, self.resting = threading.Semaphore(0), threading.Semaphore(0)
        self.wake, self.over, self.killed = world.now, False, False
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        self.go.acquire()
        LOCAL.act = self
        try:
            self.work()
        except BaseException as error:
            self.error = error
        self.over = True
        self.resting.release()

    def pause(self, seconds: float = 0.0) -> None:
        self.wake = self.world.now + seconds
        self.resting.release()
        self.go.acquire()
        if self.killed:
            raise Killed

    def advance(self) -> None:
        self.go.release()
        self.resting.acquire()
        if self.over and self.error is not None and not isinstance(self.error, LockedError | Killed):
            raise self.error


class Writer(WriterLock):
    """A writer on one of the hosts; its heartbeats come when the world says so."""

    def __init__(self, folder: Path, host: Host, number: int) -> None:
        super().__init__(folder)
        self.host, self.process = host, int("1" * (1 + number % 4) + f"{number:06}")  # of different lengths
        self.held = self.lost = self.frozen = self.dead = self.beating = False
        self.turn = 0
        self.undisturbed = True  # nothing happened that may cost it its lock
        self.act: Act | None = None

    def send_heartbeats(self) -> None:
        if not self.beating:  # the thread of its own
            return
        super().send_heartbeats()

    def beat(self) -> None:
        """One heartbeat, as the thread would send it."""
        answers = iter([False, True])
        done, self._done = self._done, SimpleNamespace(wait=lambda seconds: next(answers))  # type: ignore[assignment]
        LOCAL.host, self.beating = self.host, True
        super().send_heartbeats()
        self._done, self.beating = done, False


class World:
    def __init__(self) -> None:
        self.now = 2e9

    def pause(self, seconds: float = 0.0) -> None:
        if (act := getattr(LOCAL, "act", None)) is not None:
            act.pause(seconds)

    def host(self) -> Host:
        act = getattr(LOCAL, "act", None)
        found = LOCAL.host if act is None else act.writer.host
        assert isinstance(found, Host)
        return found

    def flock(self, descriptor: int, operation: int) -> None:
        self.pause()
        self.host().lock(descriptor, operation)

    def patch(self, patch: pytest.MonkeyPatch, living: Callable[[object], bool]) -> None:
        clock = SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now, sleep=self.pause)
        patch.setattr(lock, "time", clock)
        patch.setattr(lock, "fcntl", SimpleNamespace(**{**vars(lock.fcntl), "flock": self.flock}))
        patch.setattr(socket, "gethostname", lambda: self.host().name)
        patch.setattr(lock, "boot_id", lambda: self.host().boot)
        patch.setattr(lock, "is_shared", lambda folder: self.host().shared)
        patch.setattr(lock, "is_alive", living)
        patch.setattr(os, "utime", lambda descriptor: self.host().touch(descriptor, self.now))
        real = os.getpid
        patch.setattr(os, "getpid", lambda: LOCAL.act.writer.process if hasattr(LOCAL, "act") else real())
        patch.setattr(files, "disk", PausingDisk(self))


class PausingDisk(Disk):
    def __init__(self, world: World) -> None:
        self.world = world

    def open(self, path: Path, flags: int) -> int:
        self.world.pause()
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes) -> int:
        self.world.pause()
        count = super().write(descriptor, data)
        self.world.host().touch(descriptor, self.world.now)
        return count

    def truncate(self, descriptor: int, size: int) -> None:
        self.world.pause()
        super().truncate(descriptor, size)
        self.world.host().touch(descriptor, self.world.now)


class LockMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 30))
    def create(self, seed: int) -> None:
        self.set_up(seed)

    def set_up(self, seed: int) -> None:
        self.generator = random.Random(seed)
        self.root = Path(tempfile.mkdtemp())
        self.folder = self.root / "run"
        self.folder.mkdir()
        self.world, self.patch = World(), pytest.MonkeyPatch()
        self.writers: list[Writer] = []
        self.log: list[int] = []  # who wrote, in order; numbers in the order of getting the lock
        self.turns = 0
        self.world.patch(self.patch, lambda process: any(w.process == process for w in self.alive()))

    def teardown(self) -> None:
        for writer in self.alive():
            self.kill(writer)
        last = self.enter(HOSTS[0])
        self.let_pass(lock.TIMEOUT + lock.SETTLE + 2)
        taken, error = last.held, last.act.error if last.act else None
        self.kill(last)
        self.patch.undo()
        shutil.rmtree(self.root)
        assert taken, f"nobody lives, and the lock is not given: {error}"

    def alive(self) -> list[Writer]:
        """Those who hold the lock, or still want it."""
        return [w for w in self.writers if not w.dead and (w.held or (w.act is not None and not w.act.over))]

    def acting(self) -> list[Writer]:
        """Who can go on now."""
        now = self.world.now
        return [w for w in self.alive() if w.act and not w.act.over and w.act.wake <= now and not w.frozen]

    def idle(self) -> list[Writer]:
        """Who holds the lock, or thinks so, and does nothing now."""
        return [w for w in self.alive() if w.held and not w.frozen and (w.act is None or w.act.over)]

    def enter(self, host: Host) -> Writer:
        writer = Writer(self.folder, host, len(self.writers))

        def work() -> None:
            writer.__enter__()
            self.turns += 1
            writer.held, writer.turn = True, self.turns

        writer.act = Act(self.world, writer, work)
        self.writers.append(writer)
        return writer

    def kill(self, writer: Writer) -> None:
        """kill -9: its files are closed, and nothing is tidied up."""
        writer.dead = True
        if writer.act is not None and not writer.act.over:
            writer.act.killed = True
            writer.act.advance()
        if writer.held:
            os.close(writer.descriptor)

    def let_pass(self, seconds: float) -> None:
        end = self.world.now + seconds
        while self.world.now < end:
            while acting := self.acting():
                self.burst(self.generator.choice(acting))
            before, self.world.now = self.world.now, self.world.now + 0.25
            if self.world.now // lock.HEARTBEAT > before // lock.HEARTBEAT:
                for writer in self.alive():
                    if writer.held and not writer.frozen:
                        writer.beat()

    @precondition(lambda self: len(self.alive()) < 4)
    @rule(hosts=st.lists(st.sampled_from(HOSTS), min_size=1, max_size=3), seconds=st.sampled_from([0, 2]))
    def begin(self, hosts: list[Host], seconds: float) -> None:
        for host in hosts:
            self.enter(host)
        self.let_pass(seconds)

    @precondition(lambda self: self.acting() or self.idle())
    @rule(bursts=st.integers(1, 20))
    def act(self, bursts: int) -> None:
        """Everybody goes on by single calls, in any order; no time passes."""
        for _ in range(bursts):
            if able := [*self.acting(), *self.idle()]:
                self.burst(self.generator.choice(able))

    def burst(self, writer: Writer) -> None:
        """A writer goes on by a few calls; a holder begins to write."""
        if writer.act is None or writer.act.over:
            self.write(writer)
        for _ in range(self.generator.choice([1, 1, 2, 3, 6])):
            if writer in self.acting():
                writer.act.advance()  # type: ignore[union-attr]

    @precondition(lambda self: any(w.held for w in self.idle()) and len(self.alive()) < 4)
    @rule(hosts=st.lists(st.sampled_from(HOSTS), min_size=1, max_size=2), late=st.sampled_from([-0.5, 0.0, 0.5, 3.0]))
    def overtake(self, hosts: list[Host], late: float) -> None:
        """A holder is frozen, others come, and it wakes up when they are about to take its lock, or have it."""
        writer = self.idle()[-1]
        writer.frozen, writer.undisturbed = True, False
        for host in hosts:
            self.enter(host)
        self.let_pass(lock.TIMEOUT + late)
        writer.frozen = False

    @rule(seconds=st.sampled_from([0.5, lock.SETTLE, lock.HEARTBEAT, lock.TIMEOUT, 2 * lock.TIMEOUT]))
    def time_passes(self, seconds: float) -> None:
        self.let_pass(seconds)

    def write(self, writer: Writer) -> None:
        """A guarded write begins."""

        def work() -> None:
            try:
                writer.check()
            except LostLockError:
                writer.lost = True
                raise
            self.world.pause()  # between the check and the write; no time passes, others may act
            self.log.append(writer.turn)

        writer.act = Act(self.world, writer, work)

    @precondition(lambda self: self.idle())
    @rule(which=st.integers(0, 9), killed=st.booleans())
    def end(self, which: int, killed: bool) -> None:
        idle = self.idle()
        writer = idle[which % len(idle)]
        if killed:
            self.kill(writer)
            return
        writer.dead, writer.held, LOCAL.host = True, False, writer.host
        writer.__exit__(None, None, None)

    @rule(how=st.sampled_from(["freeze"] * 6 + ["remove the lock", "move the folder", "empty the lock"]))
    def trouble(self, how: str) -> None:
        path = self.folder / "lock"
        if how == "freeze":
            self.freeze_or_wake()
            return
        if how == "move the folder":
            self.folder.rename(self.root / f"moved-{len(list(self.root.iterdir()))}")
            self.folder.mkdir()
        elif path.exists() and how == "remove the lock":
            path.unlink()
        elif path.exists():
            path.write_bytes(b"")
        self.disturb()

    def freeze_or_wake(self) -> None:
        if not self.alive():
            return
        writer = self.generator.choice(self.alive())
        if writer.held and writer.act is not None and not writer.act.over:
            return  # between check and write: as short as it is, nothing protects it
        writer.frozen, writer.undisturbed = not writer.frozen, False
        if not writer.held and not writer.frozen:  # who wakes up late may write its name over another's
            self.disturb()

    def disturb(self) -> None:
        for writer in self.writers:
            writer.undisturbed = False

    @invariant()
    def one_after_the_other(self) -> None:
        """Nobody writes after somebody has written who got the lock later."""
        assert self.log == sorted(self.log), "two wrote at the same time"

    @invariant()
    def at_most_one_may_write(self) -> None:
        may = []
        for writer in self.alive():
            if writer.held and not writer.frozen:
                try:
                    writer.check()
                    may.append(writer)
                except LostLockError:
                    assert not writer.undisturbed, "a living holder lost its lock"
        assert len(may) <= 1
        assert not any(writer.lost for writer in may), "who lost it passes again"
        for writer in may:
            if writer.undisturbed:
                for LOCAL.host in HOSTS:
                    if LOCAL.host.flock:
                        assert lock.is_held(self.folder)


@pytest.mark.parametrize("hosts", [HOSTS[:2], HOSTS[::2], HOSTS[2:], HOSTS[3:] * 2, HOSTS[:1] * 3, HOSTS, [ALONE] * 2])
def test_of_those_who_begin_at_once_one_wins(hosts: list[Host]) -> None:
    for seed in range(25):
        machine = LockMachine()
        machine.set_up(seed)
        writers = [machine.enter(host) for host in hosts]
        machine.let_pass(lock.SETTLE + 1)
        held = [writer for writer in writers if writer.held]
        machine.one_after_the_other()
        machine.at_most_one_may_write()
        machine.teardown()
        assert len(held) == 1, f"{len(held)} of {len(hosts)} hold the lock (seed {seed})"


def test_the_lock() -> None:
    LockMachine.TestCase.settings = machine_settings(60, 40)
    LockMachine.TestCase("runTest").runTest()
