"""All runs, sweeps and monitor states below the given folders; found by walking, looked up by id and never by path."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.core.text import visible
from twoclocks.report.live.tail import Stamp
from twoclocks.report.live.watched import DAMAGED, Json, Watched
from twoclocks.report.live.watched_monitor import WatchedMonitor, looks_like_state
from twoclocks.report.live.watched_run import WatchedRun, stamp_at
from twoclocks.store import files
from twoclocks.store.checksums import decode_document

DEPTH = 6  # folders below a given one in which runs are looked for; a cell of a sweep is at 3
REMAINS = {"status.json", "metrics.jsonl"}  # of a run that lost its manifest


@dataclass(frozen=True)
class SweepFile:
    """What the description of a sweep (sweep.json) says."""

    name: str
    cells: tuple[str, ...]
    problem: str = ""


def read_sweep(path: Path) -> SweepFile:
    try:
        found = decode_document(files.read(path, files.DOCUMENT))
        return SweepFile(visible(str(found["name"])), tuple(map(str, found["cells"])))
    except (UserError, KeyError, TypeError) as error:
        return SweepFile(visible(path.parent.name), (), f"sweep.json is damaged ({visible(str(error))})")


class Catalogue:
    """What is below some folders. Links are not followed, so nothing outside of them is ever read."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = {folder.resolve(): folder for folder in folders}
        self.entries: dict[str, Watched] = {}
        self.known: dict[Path, Watched] = {}
        self.sweep_files: dict[Path, tuple[Stamp | None, SweepFile]] = {}
        self.others: dict[Path, Stamp | None] = {}  # JSON files that are no states

    def discover(self) -> None:
        """Look for new runs and states; those that are gone stay in the table, as deleted."""
        for root, given in self.folders.items():
            for path, kind in self.walk(root, DEPTH):
                if path not in self.known:
                    found = kind(path, str(Path(given.name or given) / path.relative_to(root)))
                    self.known[path] = self.entries[found.id] = found

    def walk(self, folder: Path, depth: int) -> Iterator[tuple[Path, type[WatchedRun] | type[WatchedMonitor]]]:
        """Runs and states in a folder and below; what cannot be listed is left out."""
        if isinstance(self.known.get(folder), WatchedRun):
            return
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        names = {entry.name for entry in entries}
        if "manifest.json" in names or names >= REMAINS:
            yield folder, WatchedRun
            return
        if "sweep.json" in names:
            self.note_sweep(folder)
        for entry in entries:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and depth:
                yield from self.walk(path, depth - 1)
            elif entry.name.endswith(".json") and entry.name != "sweep.json" and self.is_state(path):
                yield path, WatchedMonitor

    def is_state(self, path: Path) -> bool:
        """Whether a file is the state of a monitor; others are opened again only when they have changed."""
        if path in self.known:
            return True
        stamp = stamp_at(path)
        if self.others.get(path) == stamp:
            return False
        if looks_like_state(path):
            return True
        self.others[path] = stamp
        return False

    def note_sweep(self, folder: Path) -> None:
        """Read the description of a sweep again where it has changed."""
        stamp = stamp_at(folder / "sweep.json")
        if folder not in self.sweep_files or self.sweep_files[folder][0] != stamp:
            self.sweep_files[folder] = stamp, read_sweep(folder / "sweep.json")

    def sweep_of(self, entry: Watched) -> str:
        """The name of the sweep whose cell a run is; empty if it is none."""
        found = self.sweep_files.get(entry.path.parent.parent) if entry.path.parent.name == "cells" else None
        return "" if found is None else found[1].name

    def row(self, entry: Watched) -> Json:
        """One row of the table."""
        return {**entry.summary, "sweep": self.sweep_of(entry)}

    def rows(self) -> list[Json]:
        return [self.row(entry) for entry in list(self.entries.values()) if entry.summary]

    def sweeps(self) -> list[Json]:
        """One row per sweep: how many of its cells are in which state."""
        found = []
        for folder, (_, sweep) in sorted(self.sweep_files.items()):
            inside = [entry for entry in list(self.entries.values()) if entry.path.parent == folder / "cells"]
            states: Counter[str] = Counter(entry.state or "waiting" for entry in inside)
            states["waiting"] += max(0, len(sweep.cells) - len(inside))
            counts = {state: number for state, number in states.items() if number}
            note = sweep.problem
            state = DAMAGED if note else ""
            found.append(
                {"name": sweep.name, "cells": len(sweep.cells), "states": counts, "state": state, "note": note}
            )
        return found

    def table(self) -> dict[str, Any]:
        """What the page of all runs shows."""
        folders = [visible(str(folder)) for folder in self.folders.values()]
        return {"folders": folders, "runs": self.rows(), "sweeps": self.sweeps()}


def check_folders(folders: Sequence[Path]) -> None:
    """UserError for a folder that is not there, or is none."""
    for folder in folders:
        if not folder.exists():
            raise UserError(f"DIR: {str(folder)!r} does not exist; give a folder of runs, or make it first")
        if not folder.is_dir():
            raise UserError(f"DIR: {str(folder)!r} is not a folder; give the folder that contains it")
