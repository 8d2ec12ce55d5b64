"""The stored state of a monitor under the live page: the decision about somebody's own training loop."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from twoclocks.clocks.series import Look, Series
from twoclocks.core.errors import UserError
from twoclocks.monitor.decision import Decision, Judgement
from twoclocks.monitor.state import MonitorState
from twoclocks.report.live.panels import Curve, Level, Panel, plain
from twoclocks.report.live.samples import Samples, no_samples
from twoclocks.report.live.tail import Stamp
from twoclocks.report.live.watched import DELETED, Change, Json, Watched
from twoclocks.report.live.watched_run import stamp_at
from twoclocks.store import files
from twoclocks.store.checksums import decode_document, parse

HEAD = 400  # bytes in which a state shows that it is one
PROPORTIONS = (
    Curve("valid", "valid", "rule"),
    Curve("copies", "copies", "memory"),
    Curve("held out", "held-out pieces (chance)", "muted", dashed=True),
)
GAP = (Curve("gap", "held-out minus training loss", "new"),)
MONITORED = "monitored"  # whether the loop still trains, its state does not say


def looks_like_state(path: Path) -> bool:
    """Whether a JSON file begins like the state of a monitor (``Monitor.save``, or ``Monitor.state()`` as JSON)."""
    try:
        with files.opened(path, os.O_RDONLY) as descriptor:
            head = os.pread(descriptor, HEAD, 0)
    except OSError:
        return False
    return all(key in head for key in (b'"format"', b'"about"', b'"train"'))


def read_state(path: Path) -> MonitorState:
    """A stored state; one that was saved without a SHA-256 is read as it is. UserError if it is damaged."""
    data = files.read(path, files.DOCUMENT)
    value = parse(data)
    return MonitorState.from_json(decode_document(data) if "sha256" in value else value)


class WatchedMonitor(Watched):
    """Follows one state file, which its loop replaces after some evaluations."""

    kind = "monitor"

    def __init__(self, path: Path, folder: str) -> None:
        super().__init__(path, folder)
        self.stamp: Stamp | None = None
        self.stored: MonitorState | None = None

    def read(self) -> Change | None:
        found = stamp_at(self.path)
        if found is None and self.state != DELETED:
            self.stamp, self.state, self.note = None, DELETED, "the file is not there any more"
            return Change([])
        if found is None or found == self.stamp:
            return None
        self.stamp = found
        before = () if self.stored is None else self.stored.looks
        try:
            self.stored = read_state(self.path)
            self.decision = self.decided(self.stored)
        except UserError as error:
            return self.unreadable(str(error).removeprefix(f"{self.path}: "))
        self.state, self.note = MONITORED, self.stored.copies
        looks = self.stored.looks
        if looks[: len(before)] != before or not before:
            return Change(None)
        return Change(
            [(look.step, {key: plain(one) for key, one in self.rates(look).items()}) for look in looks[len(before) :]]
        )

    def decided(self, stored: MonitorState) -> Decision | None:
        """What the monitor decides after its last look; None before the first."""
        if not stored.looks:
            return None
        series = Series.from_looks(stored.looks, stored.copies)
        if stored.validity is None:  # counts may have been given without it being known what is valid
            series = replace(series, valid=None)
        return Judgement(stored.policy, stored.settings, stored.latest_chance).decide(series)

    def about(self) -> Json:
        stored = self.stored
        return {
            "name": self.folder,
            "model": "",
            "n": None if stored is None else stored.rows,
            "seed": None,
            "step": 0 if stored is None or not stored.looks else stored.looks[-1].step,
            "steps": None,
            "left": None,
            "evaluations": 0 if stored is None else len(stored.looks),
        }

    def panels(self) -> list[Json]:
        assert self.stored is not None and self.decision is not None
        points = [self.rates(look) for look in self.stored.looks]
        values = {key: [point.get(key, math.nan) for point in points] for key in points[0].keys() | points[-1].keys()}
        steps = [look.step for look in self.stored.looks]
        threshold = (Level("memory threshold", "memory", self.decision.level),)
        found = []
        for title, curves, levels in (("proportion of samples", PROPORTIONS, threshold), ("loss gap", GAP, ())):
            shown = tuple(curve for curve in curves if curve.key in values)
            if shown:
                panel = Panel(title, shown, levels, scale="share" if curves is PROPORTIONS else "linear")
                found.append(panel.as_json(steps, values))
        return found

    @property
    def policy(self) -> str:
        return "never" if self.stored is None else self.stored.policy

    def samples(self) -> Samples:
        return no_samples("a monitor's state holds counts and no samples; Monitor.gallery writes them as a picture")

    def rates(self, look: Look) -> dict[str, float]:
        """One look as points of curves."""
        assert self.stored is not None
        found = {"copies": look.copied / look.trials}
        if look.valid is not None and self.stored.validity is not None:
            found["valid"] = look.valid / look.trials
        if look.held_out_copied is not None and look.held_out_trials:
            found["held out"] = look.held_out_copied / look.held_out_trials
        if look.gap is not None:
            found["gap"] = look.gap
        return found
