"""A power cut, simulated: what was written but not synced is gone. kill -9 cannot show it: caches outlive a process.

Two worlds are tried after every call to the disk. In ``nothing`` only synced contents and synced names survive; in
``names`` a file's name survives without its contents, as when a rename reaches the disk before the data.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaigns import Tally, same_in_the_end
from faults import FaultyDisk
from subjects import fingerprint, settings

from twoclocks.runs import run
from twoclocks.store import files

WORLDS = ("nothing", "names")


@dataclass
class Content:
    """One file's bytes: as written, and as they are sure to be after a power cut."""

    written: bytes = b""
    synced: bytes = b""


@dataclass
class Memory:
    """Names and contents below a folder: as written, and as synced."""

    names: dict[Path, Content | None] = field(default_factory=dict)  # None: a folder
    synced_names: dict[Path, Content | None] = field(default_factory=dict)

    def snapshot(self, world: str) -> dict[Path, bytes | None]:
        names = self.names if world == "names" else self.synced_names
        kept = {path: None if one is None else one.synced for path, one in names.items()}
        return {path: data for path, data in kept.items() if all(p in kept for p in path.parents if p in self.names)}


class RememberingDisk(FaultyDisk):
    """Does what it is told, and remembers after every call what a power cut would leave."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.opened: dict[int, tuple[Path, Content | None]] = {}
        self.history: list[dict[str, dict[Path, bytes | None]]] = []

    def meet(self, name: str, half: tuple[int, Any] | None = None) -> None:
        super().meet(name, half)
        self.history.append({world: self.memory.snapshot(world) for world in WORLDS})

    def open(self, path: Path, flags: int) -> int:
        descriptor = super().open(path, flags)
        path = Path(path).absolute()
        content = None if path.is_dir() else self.memory.names.get(path, Content())
        if flags & os.O_CREAT:
            self.memory.names.setdefault(path, content)
        self.opened[descriptor] = path, content
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        count = super().write(descriptor, data)
        content = self.opened[descriptor][1]
        assert content is not None
        content.written += bytes(data[:count])
        return count

    def truncate(self, descriptor: int, size: int) -> None:
        super().truncate(descriptor, size)
        content = self.opened[descriptor][1]
        assert content is not None
        content.written = content.written[:size]

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        path, content = self.opened[descriptor]
        if content is not None:
            content.synced = content.written
            return
        kept = {p: one for p, one in self.memory.synced_names.items() if p.parent != path}
        self.memory.synced_names = kept | {p: one for p, one in self.memory.names.items() if p.parent == path}

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.memory.names[target.absolute()] = self.memory.names.pop(source.absolute())

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.memory.names.pop(path.absolute(), None)

    def make_folder(self, path: Path) -> None:
        super().make_folder(path)
        self.memory.names[path.absolute()] = None


def restore(snapshot: dict[Path, bytes | None], source: Path, target: Path) -> None:
    """The folder as it would be found after the cut."""
    target.mkdir()
    for path, data in sorted(snapshot.items()):
        place = target / path.relative_to(source)
        if data is None:
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)


def power_cuts(folder: Path, every: int = 1) -> Tally:
    """Power fails after every call to the disk; the run is continued from what is left, and must end the same."""
    chosen, source = settings(), (folder / "powered").absolute()
    before, files.disk = files.disk, RememberingDisk()
    try:
        run(chosen, source, checkpoint_seconds=0)
        history = files.disk.history  # type: ignore[attr-defined]
    finally:
        files.disk = before
    expected = fingerprint(source)
    tally = Tally("power cut after a disk call")
    for number in range(0, len(history), every):
        for world in WORLDS:
            left = {path: data for path, data in history[number][world].items() if path.is_relative_to(source)}
            path = folder / f"cut-{number}-{world}"
            restore(left, source, path)
            good = same_in_the_end(chosen, path, expected)
            tally.tried += 1
            tally.equal += good
            tally.wrong += not good
            shutil.rmtree(path)
    return tally


def lost_rows(folder: Path) -> int:
    """Rows that a run had counted on and that a power cut right after took: must be none."""
    chosen, source = settings(), (folder / "rows").absolute()
    before, files.disk = files.disk, RememberingDisk()
    lost = 0
    try:

        def look(progress: Any) -> None:
            nonlocal lost
            if progress.evaluated:
                left = files.disk.memory.snapshot("nothing")  # type: ignore[attr-defined]
                stored = left.get(source / "metrics.jsonl") or b""
                lost += stored != (source / "metrics.jsonl").read_bytes()

        run(chosen, source, look, checkpoint_seconds=0)
        left = files.disk.memory.snapshot("nothing")  # type: ignore[attr-defined]
        for path in source.rglob("*"):
            lost += path.is_file() and left.get(path) != path.read_bytes()
    finally:
        files.disk = before
    return lost
