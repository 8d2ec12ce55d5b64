"""One attempt of a run: from its last checkpoint to the end, or until somebody stops it."""

from __future__ import annotations

import logging
import os
import socket
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.series import Look
from twoclocks.core.config import flat
from twoclocks.core.counts import Row, values_of
from twoclocks.core.errors import UserError
from twoclocks.monitor.criteria import Exact
from twoclocks.monitor.monitor import Monitor
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.columns import clock_columns
from twoclocks.runs.load import Run
from twoclocks.runs.repair import repair_artifacts
from twoclocks.store import files
from twoclocks.store.files import DiskError
from twoclocks.store.lock import LockedError, WriterLock
from twoclocks.store.run_directory import RunDirectory, now
from twoclocks.training.errors import DivergedError
from twoclocks.training.stopping import StoppedError, StopRequest

CHECKPOINT_SECONDS = 30.0  # seconds of training that a crash may cost; a signal costs nothing
CHECKPOINT_SHARE = 0.05  # of the time that storing may take; P2's networks of 8,192 channels write 13 GB each time

log = logging.getLogger("twoclocks")


@dataclass(frozen=True)
class Progress:
    """What an observer is told while a run trains."""

    step: int
    steps: int
    loss: float  # mean since the last evaluation
    metrics: dict[str, float] | None  # of the last evaluation; None before the first of this attempt
    evaluated: bool  # whether this step was an evaluation
    seconds_left: float
    monitor: Monitor  # it knows all evaluations so far; ask it for its decision


Observer = Callable[[Progress], None]


class EarlyStop(Exception):  # noqa: N818 (it is not an error)
    """Training ends here because the monitor says so."""


def make_monitor(experiment: Experiment) -> Monitor:
    """A ``tc.Monitor`` of this run's data; it is told how many samples are copies, and compares none itself."""
    clocks = experiment.settings.clocks
    monitor = Monitor(experiment.train_rows, experiment.rule, clocks, copies=Exact(), policy=clocks.stop)
    monitor.chance = Chance.exact(experiment.evaluator.reference.copy_chance)  # of images, that of the evaluator
    clocks.memory_levels(monitor.chance)  # an impossible threshold is an error now, not during training
    return monitor


class Stopwatch:
    """Time so far and time left; steps and evaluations are timed apart, since most evaluations are at the start."""

    def __init__(self, schedule: tuple[int, ...], steps: int, start: int = 0, before: float = 0.0) -> None:
        self.begin, self.schedule, self.steps = time.perf_counter(), schedule, steps
        self.start, self.before = start, before  # step and seconds at which earlier attempts ended
        self.evaluating, self.evaluations = 0.0, 0

    @property
    def seconds(self) -> float:
        """Seconds of this attempt."""
        return time.perf_counter() - self.begin

    @property
    def total(self) -> float:
        """Seconds of all attempts."""
        return self.before + self.seconds

    def evaluated(self, seconds: float) -> None:
        self.evaluating += seconds
        self.evaluations += 1

    def left(self, step: int) -> float:
        training = (self.seconds - self.evaluating) / max(step - self.start, 1) * (self.steps - step)
        due = len(self.schedule) - bisect_right(self.schedule, step)
        return training + due * self.evaluating / max(self.evaluations, 1)


class Session:
    """Trains an experiment and writes it to a directory that this process has locked."""

    def __init__(
        self,
        experiment: Experiment,
        directory: RunDirectory,
        lock: WriterLock,
        stop: StopRequest,
        observe: Observer,
        checkpoint_seconds: float,
        together: int = 1,
    ) -> None:
        self.together = together  # runs that this process trains at the same time
        self.experiment, self.directory, self.lock, self.stop = experiment, directory, lock, stop
        self.observe, self.checkpoint_seconds = observe, checkpoint_seconds
        self.latest: dict[str, float] | None = None
        self.attempts: list[dict[str, Any]] = directory.status().get("attempts", [])
        self.resume()

    def resume(self) -> None:
        """Load the last intact checkpoint, or begin at step 0 where there is none."""
        status = self.directory.status()
        self.directory.check_manifest(status)
        columns = self.columns_of_all_attempts()
        found = self.directory.last_good()
        known = self.directory.checkpoint_steps()
        if status.keys() & {"link", "manifest"}:  # it names the last row and the manifest, which may change now
            self.directory.set_status("running", attempts=self.attempts)
        self.directory.rewind(found)
        self.directory.upgrade(metrics=columns)
        if found is not None:
            try:
                self.experiment.load_state(found.step, self.directory.journal.last_step, found.tensors)
            except (RuntimeError, KeyError, ValueError) as error:
                fix = "use the version of twoclocks that wrote it, or another --out"
                raise UserError(f"{self.directory.path}: its checkpoint does not fit this network; {fix}") from error
            self.describe_continuation(found.step)
        elif known:
            log.warning(f"{self.directory.path}: no checkpoint is intact; the run starts again at step 0")
        self.lost = repair_artifacts(self.directory, self.experiment, found)
        settings, timed = self.experiment.settings, self.directory.timings.last
        before = 0.0 if timed is None else timed.row["seconds"]
        self.watch = Stopwatch(settings.schedule, settings.training.steps, self.step, before)
        self.next_store = time.monotonic() + self.checkpoint_seconds
        self.stored_link = None if found is None else found.link
        here = {"process": os.getpid(), "host": socket.gethostname(), **self.experiment.environment()}
        here |= {"together": self.together} if self.together > 1 else {}  # its seconds are also those of the others
        self.attempts = [*self.attempts, {"from_step": self.step, "began": now(), **here}]
        self.directory.set_status("running", manifest=files.digest(self.directory.manifest_bytes()), **self.so_far())
        if found is None:
            self.store()
        self.monitor = make_monitor(self.experiment)
        for row in self.directory.metrics():
            self.show_monitor(row)

    def columns_of_all_attempts(self) -> list[dict[str, Any]]:
        """The columns that the manifest describes, then those of metrics that were added since; none may be gone."""
        before, here = Run(self.directory.path).manifest["metrics"], self.experiment.described_columns()
        old, new = ([column["name"] for column in columns] for columns in (before, here))
        path = self.directory.path
        if gone := [name for name in old if name not in new]:
            fix = "import or install what registers it (--import), or choose another --out"
            raise UserError(f"{path}: has the column {gone[0]}, which no registered metric computes now; {fix}")
        added = [column for column in here if column["name"] not in old]
        if added:
            names = ", ".join(column["name"] for column in added)
            log.warning(f"{path}: gets new columns, which its earlier evaluations lack: {names}")
        return [*before, *added]

    def show_monitor(self, row: Row) -> None:
        """Give the monitor the counts of an evaluation; it decides when it is asked."""
        self.monitor.record(Look.from_row(row, clock_columns(self.experiment.rule.part_counts())))

    @property
    def step(self) -> int:
        return self.experiment.loop.step

    def describe_continuation(self, step: int) -> None:
        """Log from where a run is continued, and whether its results stay the same bit for bit."""
        before = self.directory.manifest()
        here = self.experiment.environment()
        old, new = (flat({key: at[key] for key in ("versions", "machine") if key in at}) for at in (before, here))
        changed = {key: value for key, value in new.items() if old.get(key) != value}
        path = self.directory.path
        log.info(f"{path}: continues at step {step:,}")
        if self.experiment.device.startswith("cuda"):
            log.info(f"{path}: on a GPU a continued run is statistically, not bit for bit, the uninterrupted one")
        elif changed:
            words = ", ".join(f"{key} was {old.get(key)} and is {value}" for key, value in changed.items())
            log.warning(f"{path}: {words}; the continued run is the same statistically, not bit for bit")

    def so_far(self) -> dict[str, Any]:
        """What every status says: seconds, attempts, and artifacts that are damaged and cannot be computed again."""
        return {"seconds": self.watch.total, "attempts": self.attempts, **({"lost": self.lost} if self.lost else {})}

    def store(self) -> None:
        begin = time.monotonic()
        self.directory.write_checkpoint(self.step, self.experiment.state())
        self.stored_link, end = self.directory.journal.link, time.monotonic()
        self.next_store = end + checkpoint_interval(self.checkpoint_seconds, end - begin)

    def store_end(self) -> None:
        """Store the last step with the last row; a checkpoint from the middle of an evaluation lacks its row."""
        if self.step not in self.directory.checkpoint_steps() or self.stored_link != self.directory.journal.link:
            self.store()

    def train(self) -> None:
        """Train to the last step, or to where the monitor says stop."""
        with self.recorded():
            step = self.experiment.make_step()
            for number in self.updates():
                step(number)

    def updates(self) -> Iterator[int]:
        """The number of every update that is left, which the caller makes inside of ``recorded``."""
        self.check_policy()
        yield from self.experiment.updates(self.on_evaluation, self.on_check, self.on_step)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Store how the training inside ends: at the last step, early, or by an error, which is raised."""
        try:
            reason: dict[str, Any] = {}
            try:
                yield
            except EarlyStop as enough:
                reason = {"reason": str(enough), "stopped_at": self.step}
            self.store_end()
            self.directory.finish(**reason, **self.so_far())
        except BaseException as error:
            final = self.ended(error)
            if final is error:
                raise
            raise final from error

    def check_policy(self) -> None:
        """End training where the monitor says so (``clocks.stop``)."""
        if self.monitor.policy == "never" or self.monitor.last_step != self.step:  # nothing new was evaluated
            return
        decision = self.monitor.decision()
        if decision.stop:
            raise EarlyStop(f"clocks.stop = {self.monitor.policy}: {decision.reason}")

    def on_evaluation(self, step: int, loss: float) -> None:
        begin = self.watch.seconds
        with self.stop.at_once():
            row, artifacts = self.experiment.evaluate(step, loss)
        written = {kind: self.directory.artifacts[kind].write(step, tensors) for kind, tensors in artifacts.items()}
        self.directory.append_metrics(row, written)
        took = self.watch.seconds - begin
        self.directory.timings.append({"step": step, "seconds": self.watch.total, "evaluation_seconds": took})
        self.watch.evaluated(took)
        self.latest = values_of(row)
        self.show_monitor(row)
        if step == 0:  # no step leads to it
            self.check_policy()
        self.report(step, loss, evaluated=True)

    def on_check(self, step: int, loss: float) -> None:
        self.report(step, loss, evaluated=False)

    def report(self, step: int, loss: float, evaluated: bool) -> None:
        steps = self.experiment.settings.training.steps
        self.observe(Progress(step, steps, loss, self.latest, evaluated, self.watch.left(step), self.monitor))

    def on_step(self, step: int) -> None:
        self.stop.check()
        self.check_policy()
        if time.monotonic() >= self.next_store or step == self.experiment.settings.training.steps:
            self.store()

    def ended(self, error: BaseException) -> BaseException:
        """Save what can be saved, write how the run ended, and return the error to raise."""
        stopped = f"stopped by {error.by}; " if isinstance(error, StoppedError) else ""
        try:
            if isinstance(error, StoppedError):
                self.store()
                error = StoppedError(error.by, self.step)
        except (DivergedError, DiskError, LockedError) as worse:
            error = worse
        try:
            self.lock.check()
            steps = self.directory.checkpoint_steps()
            if isinstance(error, FloatingPointError | DivergedError):
                error = DivergedError(self.step, last_good=steps[-1] if steps else 0)
            if not isinstance(error, DiskError):
                known = isinstance(error, StoppedError | UserError)
                reason = str(error) if known else f"{type(error).__name__}: {error}"
                self.directory.set_ended(ending(error), reason=reason, **self.so_far())
        except LockedError as lost:  # the folder is gone or another process writes to it: that is why it failed
            return lost
        except DiskError as full:
            error = full
        if isinstance(error, DiskError):  # nothing can be written any more: the run stays unfinished
            good = f"the last good checkpoint is that of step {steps[-1]}" if steps else "there is no checkpoint yet"
            return error.with_note(stopped + good)
        return error


def checkpoint_interval(asked: float, storing: float) -> float:
    """Seconds until the next checkpoint, if the last one took ``storing``: more than asked for where that is slow.

    >>> checkpoint_interval(30, 1), checkpoint_interval(30, 12), checkpoint_interval(0, 12)  # 0: at every step
    (30, 240.0, 0)
    """
    return max(asked, storing / CHECKPOINT_SHARE) if asked else asked


def ending(error: BaseException) -> str:
    """The status of a run that ended with an error: diverged, failed, or interrupted by a person."""
    if isinstance(error, DivergedError):
        return "diverged"
    return "failed" if isinstance(error, Exception) else "interrupted"
