"""A run whose manifest could be read: its rows so far, and what is computed from them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.series import Series
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.config import build
from twoclocks.core.counts import values_of
from twoclocks.core.errors import UserError
from twoclocks.core.text import visible
from twoclocks.monitor.decision import Decision, Judgement
from twoclocks.report.live.columns import Columns
from twoclocks.report.live.pace import Pace
from twoclocks.report.live.panels import plain
from twoclocks.report.live.run_panels import RunPanels
from twoclocks.report.live.tail import Tail
from twoclocks.report.live.watched import MOST_SENT, Change, Json
from twoclocks.runs.columns import clock_columns
from twoclocks.runs.load import Run
from twoclocks.store.journal import Journal
from twoclocks.store.run_directory import METRICS, TIMED


class OpenedRun:
    """Reads new rows into columns, and reads clocks, decision and curves from them."""

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

    def decision(self) -> Decision | None:
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
