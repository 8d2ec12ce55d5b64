"""A run directory under the live page: manifest, status and lock are looked at, of the rows only the new ones read."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.series import Series
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.config import build
from twoclocks.core.counts import values_of
from twoclocks.core.errors import UserError
from twoclocks.core.text import visible
from twoclocks.monitor.decision import Judgement
from twoclocks.report.live.columns import Columns
from twoclocks.report.live.pace import Pace
from twoclocks.report.live.panels import plain
from twoclocks.report.live.run_panels import RunPanels
from twoclocks.report.live.samples import Samples, latest_samples, no_samples
from twoclocks.report.live.tail import Stamp, Tail, stamp_of
from twoclocks.report.live.watched import DAMAGED, DELETED, MOST_SENT, Change, Json, Watched
from twoclocks.runs.columns import clock_columns
from twoclocks.runs.load import Run
from twoclocks.store.journal import Journal
from twoclocks.store.lock import is_held
from twoclocks.store.run_directory import METRICS, TIMED


def stamp_at(path: Path) -> Stamp | None:
    """The stamp of the file of this name; None without one."""
    try:
        return stamp_of(path.lstat())
    except OSError:
        return None


UNFINISHED = "unfinished"


class WatchedRun(Watched):
    """Follows one run, which may be killed, resumed, damaged, deleted or replaced by another one at any time."""

    kind = "run"

    def __init__(self, path: Path, folder: str) -> None:
        super().__init__(path, folder)
        self.stamps: dict[str, Stamp | None] = {}
        self.status: dict[str, Any] = {}
        self.held = False
        self.opened: OpenedRun | None = None  # with a readable manifest
        self.problem = ""  # why it is not readable

    def glance(self) -> None:
        if self.summary:
            return
        with self.lock:
            self.renewed("manifest.json")
            self.open()
            if self.opened is None:
                self.state, self.note = DAMAGED, self.problem
            else:
                self.status = self.opened.run.directory.status()
                self.held = is_held(self.path)
                self.state, self.note = self.word(), "its evaluations are being read"
            self.summary = self.summarised()

    def read(self) -> Change | None:
        if not os.path.lexists(self.path):
            return self.now(DELETED, "its folder is not there any more")
        fresh = self.renewed("manifest.json")
        renewed = self.renewed("status.json")
        if fresh:
            self.open()
        if self.opened is None:
            return self.now(DAMAGED, self.problem)
        if renewed or fresh:  # before the rows: a status of later could speak of rows that are not among them
            self.status = self.opened.run.directory.status()
        held = is_held(self.path)
        moved = renewed or fresh or held != self.held
        self.held = held
        change = self.opened.read(whole=moved)
        if change is None and not moved:
            return None
        try:
            if change is not None or self.decision is None:
                self.decision = self.opened.decision()
            state, note = self.judged()
        except UserError as error:
            state, note = DAMAGED, str(error)
        return self.now(state, note, change)

    def renewed(self, name: str) -> bool:
        """Whether a file is another one than at the last reading."""
        found = stamp_at(self.path / name)
        before = self.stamps.get(name, ())
        self.stamps[name] = found
        return found != before

    def open(self) -> None:
        """Read the manifest; without a sound one the run is damaged."""
        self.opened, self.decision = None, None
        try:
            if self.stamps["manifest.json"] is None:
                raise UserError("manifest.json: is missing")
            self.opened = OpenedRun(Run(self.path))
        except UserError as error:
            self.problem = str(error).replace(f"{self.path}/", "")

    def now(self, state: str, note: str, change: Change | None = None) -> Change | None:
        """Note the state; a change if it is another one, or if there are new rows."""
        if change is None and (state, note) == (self.state, self.note):
            return None
        if state == DELETED:
            self.stamps.clear()  # a folder of this name may come back
        self.state, self.note = state, note
        return change if change is not None else Change([])

    def judged(self) -> tuple[str, str]:
        """The state in the store's own words, and why; DamagedError where rows are damaged or missing."""
        assert self.opened is not None
        metrics, status = self.opened.metrics, self.status
        if metrics.problem:
            return DAMAGED, metrics.problem.replace(f"{self.path}/", "")
        if "link" in status and status["link"] != metrics.link and not self.held:
            found = f"metrics.jsonl: has {metrics.count} rows, the run ended with {status.get('rows')}"
            return DAMAGED, found
        notes = [str(status.get("reason", status.get("problem", "")))]
        if self.word() == "running":
            notes = []
        elif self.word() == UNFINISHED:
            notes = ["its process is gone; the same command continues the run"]
        notes += self.opened.origin(status)
        return self.word(), "; ".join(filter(None, notes))

    def word(self) -> str:
        """The state as `verify` says it: a run that nobody writes is not running, whatever its status says."""
        if self.held:
            return "running"
        word = str(self.status["status"])
        return UNFINISHED if word == "running" else word

    def about(self) -> Json:
        if self.opened is None:
            return {"name": self.folder, "model": "", "n": None, "seed": None, "step": 0, "steps": None, "left": None}
        return self.opened.about(running=self.state == "running")

    def panels(self) -> list[Json]:
        assert self.opened is not None
        return self.opened.panels()

    @property
    def policy(self) -> str:
        return "never" if self.opened is None else self.opened.clocks.stop

    def samples(self) -> Samples:
        with self.lock:
            opened = self.opened
            stored = {} if opened is None else dict(opened.stored)
        if opened is None or not stored:
            return no_samples("no samples are stored yet")
        try:
            return latest_samples(opened.run, *max(stored.items()))
        except (UserError, OSError) as error:
            return no_samples(str(error))


class OpenedRun:
    """A run whose manifest could be read: its rows so far, and what is computed from them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        settings, derived = run.stored_settings, run.derived  # UserError where the manifest is damaged
        self.clocks = build(ClockSettings, settings.get("clocks", {}), "clocks")
        self.columns_of_clocks = clock_columns(derived["part_kinds"])
        origin = run.manifest["origin"]
        self.metrics = Tail(Journal(run.path / "metrics.jsonl", origin, **METRICS))
        self.timings = Tail(Journal(run.path / "timings.jsonl", origin, numbers=TIMED))
        self.restart()
        self.pace = Pace(steps_of(settings), settings["evaluation"])

    def restart(self) -> None:
        self.columns = Columns()
        self.stored: dict[int, str] = {}  # steps with samples, and their SHA-256

    def read(self, whole: bool) -> Change | None:
        """Read new rows and timings; None where there are none."""
        timed = self.timings.read(whole)
        if timed.restarted:
            self.pace.restart()
        for row in timed.rows:
            self.pace.add(row)
        found = self.metrics.read(whole)
        if found.restarted:
            self.restart()
        before = len(self.columns)
        for row in found.rows:
            try:
                self.columns.add(row)
            except (OverflowError, TypeError) as error:
                raise UserError(f"metrics.jsonl: its rows are no evaluations ({error}); restore the file") from None
            if "samples" in row:
                self.stored[int(row["step"])] = row["samples"]
        if found.restarted or len(found.rows) > MOST_SENT:
            return Change(None)
        shown = self.curves.keys
        points = [
            (row["step"], {key: plain(row[key]) for key in shown if key in row})
            for row in map(values_of, self.columns.rows(before))
        ]
        return Change(points) if found.rows or timed.rows else None

    @cached_property
    def curves(self) -> RunPanels:
        return RunPanels(self.run.manifest["metrics"], self.clocks)

    def decision(self) -> Any:
        """Clocks and decision from the rows so far; None before the first."""
        if not len(self.columns):
            return None
        chance = self.run.copy_chance
        with self.run.evaluations():
            series = Series.from_rows(list(self.columns.rows()), self.columns_of_clocks)
            return Judgement(self.clocks.stop, self.clocks, Chance.exact(chance)).decide(series)

    def panels(self) -> list[Json]:
        return self.curves.drawn([values_of(row) for row in self.columns.rows()], self.run.copy_chance)

    def origin(self, status: dict[str, Any]) -> list[str]:
        """Whether the run is a fork, and how often it was continued."""
        notes = []
        fork = self.run.manifest.get("forked_from")
        if isinstance(fork, dict):
            notes.append(f"fork of {fork.get('path')} at step {fork.get('step')}")
        attempts = [one for one in status.get("attempts", []) if isinstance(one, dict)]
        if len(attempts) > 1:
            notes.append(f"resumed from step {attempts[-1].get('from_step')} (attempt {len(attempts)})")
        return notes

    def about(self, running: bool) -> Json:
        settings = self.run.stored_settings
        step = self.pace.step if self.metrics.last is None else int(self.metrics.last.row["step"])
        return {
            "name": visible(self.run.label),
            "model": visible(self.run.title),
            "n": settings["data"]["n"],
            "seed": settings["training"]["seed"],
            "step": step,
            "steps": self.pace.steps,
            "left": self.pace.left() if running else None,
            "evaluations": len(self.columns),
        }


def steps_of(settings: dict[str, Any]) -> int | None:
    """The last step of training; None where the settings of an old run do not say it."""
    steps = settings["training"].get("steps")
    return steps if isinstance(steps, int) else None
