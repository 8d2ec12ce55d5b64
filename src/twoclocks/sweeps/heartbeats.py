"""Heartbeats of jobs on a Ray cluster: a worker process that stands still sends none, and its cell is moved.

Ray notices a process that ended, and a node whose raylet does not answer its health checks. It does not notice a
worker process that stands still: stopped by a signal, or waiting for a disk that does not answer. So a thread in every
worker calls an actor every few seconds, and the coordinator reads the actor's counts. Only changes of the counts
matter, so the clocks of the machines need not agree.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

INTERVAL = 5.0  # seconds between two heartbeats, or less where a short silence is asked for

Counts = dict[str, tuple[int, str]]  # by attempt: heartbeats so far, and who sends them


class Heartbeats:
    """The Ray actor: counts the heartbeats of every attempt to run a cell."""

    def __init__(self) -> None:
        self.counts: Counts = {}

    def add(self, attempt: str, sender: str) -> None:
        """Count one heartbeat."""
        self.counts[attempt] = (self.counts.get(attempt, (0, ""))[0] + 1, sender)

    def read(self, attempts: Sequence[str]) -> Counts:
        """The counts of these attempts; all others are forgotten."""
        self.counts = {attempt: self.counts[attempt] for attempt in attempts if attempt in self.counts}
        return self.counts


@contextlib.contextmanager
def send_heartbeats(actor: Any, attempt: str, interval: float) -> Iterator[None]:
    """In a worker: call the actor now, and then every ``interval`` seconds until the end of the block."""
    sender = f"process {os.getpid()} on {socket.gethostname()}"
    add = actor.add.options(num_returns=0)
    add.remote(attempt, sender)  # before the thread: from here on the job is running, and no longer queued
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(interval):
            add.remote(attempt, sender)

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@dataclass
class SilenceTimer:
    """Adds up, for every attempt that has begun, the seconds without a new heartbeat.

    >>> timer = SilenceTimer(limit=10.0, interval=5.0)
    >>> [timer.update({"a": (1, "process 7")}, now) for now in (0.0, 4.0, 8.0, 12.0)]
    [[], [], [], ['a']]
    """

    limit: float
    interval: float
    seen: Counts = field(default_factory=dict)
    quiet: dict[str, float] = field(default_factory=dict)
    before: float | None = None

    def update(self, counts: Counts, now: float) -> list[str]:
        """Take the counts at a time (monotonic, seconds); return the attempts that were silent for too long.

        Time in which the coordinator did not read counts little: if all machines or the coordinator alone were
        suspended, the workers get the chance to send before they are cancelled.
        """
        passed = 0.0 if self.before is None else min(now - self.before, 2 * self.interval)
        self.before = now
        for attempt in self.seen.keys() | counts.keys():
            # An actor that was started again has no counts until the next heartbeat.
            if attempt in counts and counts[attempt] != self.seen.get(attempt):
                self.seen[attempt], self.quiet[attempt] = counts[attempt], 0.0
            else:
                self.quiet[attempt] += passed
        return [attempt for attempt, quiet in self.quiet.items() if quiet >= self.limit]

    def forget(self, attempt: str) -> None:
        self.seen.pop(attempt, None)
        self.quiet.pop(attempt, None)


class SilenceWatch:
    """The coordinator's side: makes the actor, and says which of the running tasks are silent. It never blocks."""

    def __init__(self, ray: Any, silence: float) -> None:
        self.ray, self.interval = ray, min(INTERVAL, silence / 4)
        self.timer = SilenceTimer(silence, self.interval)
        self.attempts: dict[str, Any] = {}  # attempt to the reference of its task
        self.answer: Any = None  # what the actor was asked for and has not answered yet
        # On the node of the coordinator: there it cannot be part of what freezes while the coordinator goes on.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        actor = ray.remote(num_cpus=0, max_restarts=-1)(Heartbeats)
        self.actor = actor.options(scheduling_strategy=here).remote()

    def new_attempt(self) -> tuple[Any, str, float]:
        """The arguments of ``send_heartbeats`` for one task."""
        return self.actor, secrets.token_hex(8), self.interval

    def silent(self, now: float | None = None) -> dict[Any, str]:
        """References of tasks that began and then were silent for too long, and who should have sent a heartbeat."""
        now = time.monotonic() if now is None else now
        if self.answer is None:
            if self.timer.before is None or now - self.timer.before >= self.interval:
                self.answer = self.actor.read.remote(list(self.attempts))
            return {}
        if not self.ray.wait([self.answer], timeout=0)[0]:
            return {}  # without an answer nothing is known about anybody
        answer, self.answer = self.answer, None
        try:
            counts = self.ray.get(answer)
        except self.ray.exceptions.RayError:  # the actor died; Ray starts it again
            return {}
        known = {attempt: count for attempt, count in counts.items() if attempt in self.attempts}
        found = self.timer.update(known, now)
        return {self.attempts[attempt]: self.timer.seen[attempt][1] for attempt in found}

    def forget(self, reference: Any) -> None:
        """A task ended or was given up."""
        for attempt in [attempt for attempt, one in self.attempts.items() if one == reference]:
            del self.attempts[attempt]
            self.timer.forget(attempt)
