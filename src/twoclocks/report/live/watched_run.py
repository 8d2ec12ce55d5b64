"""A run directory under the live page: manifest, status and lock are looked at, of the rows only the new ones read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.report.live.opened_run import OpenedRun
from twoclocks.report.live.samples import Samples, latest_samples, no_samples
from twoclocks.report.live.tail import Stamp, stamp_of
from twoclocks.report.live.watched import DAMAGED, DELETED, Change, Json, Watched
from twoclocks.runs.load import Run
from twoclocks.store.lock import is_held


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
