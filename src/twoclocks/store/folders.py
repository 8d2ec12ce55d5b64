"""The folders of runs: which names belong to one, where runs are in a tree, and what must not be written over."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from twoclocks.core.errors import UserError
from twoclocks.store import files
from twoclocks.store.artifacts import KINDS

FOLDERS = ("checkpoints", "samples")
DERIVED = "dissection"  # a cache: its content can be computed again
PLACES = dict.fromkeys((*FOLDERS, *KINDS, DERIVED))  # all folders that a run may have, in order
OURS = {"manifest.json", "status.json", "metrics.jsonl", "timings.jsonl", "lock", *PLACES}


def refuse_links(path: Path) -> None:
    """A run directory is a plain folder of plain folders: a link could lead a write out of it."""
    for place in (path, *(path / folder for folder in PLACES)):
        if place.is_symlink():
            raise UserError(f"{place}: is a symbolic link; give the folder itself")


def runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs inside it or, for a sweep, inside its cells; else itself."""
    if (folder / "manifest.json").exists():
        return [folder]
    inside = [*folder.glob("*/manifest.json"), *folder.glob("cells/*/manifest.json")]
    return sorted(path.parent for path in inside) or [folder]


def check_free(path: Path, besides: Collection[str] = ()) -> None:
    """Refuse an output folder that holds a run or anything that is not ours, before anything is written.

    ``besides`` are further names that may be there.
    """
    refuse_links(path)
    if (path / "manifest.json").exists():
        raise UserError(f"--out: {str(path)!r} already holds a run; choose another folder or remove it")
    if path.exists() and (
        not path.is_dir() or any(entry.name not in besides and not ours(entry) for entry in path.iterdir())
    ):
        raise UserError(f"--out: {str(path)!r} is not an empty folder; choose another one")


def ours(entry: Path) -> bool:
    """Whether a run that was killed before its manifest may have left this: a lock, partial files, empty folders."""
    if entry.name in PLACES:
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name == "lock" or (entry.name.startswith(".") and entry.name.endswith(files.PARTIAL))
