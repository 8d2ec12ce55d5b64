"""Which cells of a sweep run when: several at a time, together where they can be, and again after a failure."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from twoclocks.core.config import to_mapping
from twoclocks.core.plugins import imported_files
from twoclocks.runs.load import DONE
from twoclocks.sweeps.cells import cell_path
from twoclocks.sweeps.executors import Job, JobResult, Pool
from twoclocks.sweeps.grid import Cell
from twoclocks.sweeps.together import Packing
from twoclocks.training.stopping import StopRequest

if TYPE_CHECKING:
    from twoclocks.sweeps.coordinator import ProgressCallback, Sweep

POLL_SECONDS = 0.5  # between two checks of the running jobs
REPORT_SHARE = 0.05  # of the coordinator's time that reports of progress may take, however many cells there are
BUSY_SECONDS = 2.0  # before a cell that another process is writing is tried again


class Dispatch:
    """Submits cells to a pool until each is done or has failed too often.

    A cell gets 1 + ``retries`` attempts. After an out-of-memory error it gets one more attempt, alone, when all others
    are done. The last attempt of a cell whose process was killed is alone too, since the operating system may have
    killed it for lack of memory.
    """

    def __init__(
        self,
        sweep: Sweep,
        pool: Pool,
        waiting: list[Cell],
        retries: int,
        checkpoint_seconds: float,
        packing: Packing = Packing(),  # noqa: B008 (it cannot be changed)
    ) -> None:
        self.sweep, self.pool, self.retries, self.checkpoint_seconds = sweep, pool, retries, checkpoint_seconds
        self.packing = packing
        self.cells = {cell.key: cell for cell in waiting}
        self.jobs: dict[str, list[str]] = {}  # running cells, to all cells of their job
        self.groups: dict[str, str] = {}  # cells to what they share with those that can be trained together with them
        self.singles: set[str] = set()  # cells that were not done by a job of several cells: the next has one
        self.queue, self.alone = deque(self.cells), deque[str]()
        self.later: dict[str, float] = {}  # cells that another process is writing, and when to try them again
        self.isolated: set[str] = set()  # cells that had their attempt alone

    def run(self, stop: StopRequest, report: ProgressCallback) -> None:
        """Submit jobs and handle their results until none is left."""
        running = self.sweep.busy
        next_report = 0.0
        self.sweep.dispatching = True
        while self.queue or self.alone or self.later or running:
            self.queue_again()
            while self.queue and self.count_jobs() < self.pool.capacity:
                key = self.queue.popleft()
                self.submit([key, *self.companions(key)], alone=False)
            if self.alone and not (running or self.queue or self.later):
                self.submit([self.alone.popleft()], alone=True)
            if not running:
                time.sleep(0.1)  # all remaining cells are written by other processes
            for result in self.pool.wait(POLL_SECONDS):
                running.discard(result.key)
                self.sweep.forget(result.key)
                self.handle_result(result)
            stop.check()
            if (begin := time.monotonic()) > next_report:
                report(self.sweep)
                ended = time.monotonic()
                next_report = ended + max(POLL_SECONDS, (ended - begin) / REPORT_SHARE)
        self.sweep.dispatching = False

    def queue_again(self) -> None:
        """Queue the cells that another process was writing, once it is time to try them again."""
        for key in [key for key, when in self.later.items() if when <= time.monotonic()]:
            del self.later[key]
            self.sweep.forget(key)
            self.queue.append(key)

    def count_jobs(self) -> int:
        """How many jobs are running."""
        return len({keys[0] for keys in self.jobs.values()})

    def companions(self, key: str) -> list[str]:
        """Take cells from the queue that can be trained together with this one.

        As many as are worth it, but not so many that other places of the pool have nothing to do.
        """
        most = self.packing.most(self.cells[key].settings)
        if most < 2 or key in self.singles:
            return []
        for other in (key, *self.queue):
            if other not in self.groups:
                self.groups[other] = self.packing.group(self.cells[other].settings)
        alike = [one for one in self.queue if one not in self.singles and self.groups[one] == self.groups[key]]
        share = -(-(1 + len(alike)) // (self.pool.capacity - self.count_jobs()))
        chosen = alike[: min(most, share) - 1]
        for other in chosen:
            self.queue.remove(other)
        return chosen

    def submit(self, keys: list[str], alone: bool) -> None:
        """Start the job of a cell, or of several together, in the pool."""
        for key in keys:
            self.sweep.attempts[key] += 1
            self.sweep.busy.add(key)
            self.jobs[key] = keys
        if alone:
            self.isolated.update(keys)
        first, *others = (self.description(key) for key in keys)
        form = self.packing.form(self.cells[keys[0]].settings)
        more = self.checkpoint_seconds, alone, tuple(imported_files()), tuple(others), form
        self.pool.start(Job(first["key"], first["settings"], first["out"], *more))

    def description(self, key: str) -> dict[str, Any]:
        """A cell as a job names it."""
        cell = self.cells[key]
        out = str(cell_path(self.sweep.root, cell).absolute())
        return {"key": key, "settings": to_mapping(cell.settings), "out": out}

    def handle_result(self, result: JobResult) -> None:
        """Queue a cell again, or record its failure."""
        key = result.key
        together = len(self.jobs.pop(key)) > 1
        if result.outcome in DONE:
            return
        if together:
            self.end_together(key, result)
            return
        then = next_attempt(result.outcome, self.sweep.attempts[key], self.retries, alone=key in self.isolated)
        if then == "later":
            self.sweep.attempts[key] -= 1  # this was no attempt
            self.later[key] = time.monotonic() + BUSY_SECONDS
        elif then == "never":
            self.sweep.failures[key] = result.reason
        else:
            (self.alone if then == "alone" else self.queue).append(key)

    def end_together(self, key: str, result: JobResult) -> None:
        """A cell that a job of several did not finish gets a process of its own; the job was no attempt of it.

        What became of the process says nothing about a cell that had ended before.
        """
        if self.sweep.complete(self.cells[key]):
            return
        self.singles.add(key)
        self.sweep.attempts[key] -= 1
        if result.outcome == "busy":
            self.later[key] = time.monotonic() + BUSY_SECONDS
        else:
            self.queue.append(key)


def next_attempt(outcome: str, tried: int, retries: int, alone: bool) -> Literal["now", "alone", "later", "never"]:
    """When a cell that is not done after ``tried`` attempts is tried again; ``alone``: the last attempt was alone.

    >>> [next_attempt("lost", tried, retries=2, alone=False) for tried in (1, 2, 3)]
    ['now', 'alone', 'never']
    """
    if outcome == "busy":
        return "later"
    if outcome == "memory":
        return "never" if alone else "alone"
    if tried > retries:
        return "never"
    return "alone" if outcome == "lost" and tried == retries else "now"
