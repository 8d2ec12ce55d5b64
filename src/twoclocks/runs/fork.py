"""Forks: which settings of two runs differ, and a copy of a run that continues with other settings."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from twoclocks.core.config import build, flat
from twoclocks.core.errors import UserError
from twoclocks.core.plugins import missing_imports, needs_imports
from twoclocks.runs.load import Run
from twoclocks.runs.settings import RunSettings
from twoclocks.store import files
from twoclocks.store.artifacts import KINDS
from twoclocks.store.lock import WriterLock
from twoclocks.store.run_directory import RunDirectory

# What a fork may change: its weights stay usable and its rows comparable.
CHANGEABLE = (
    "training.*",
    "clocks.*",
    "evaluation.steps",
    "evaluation.first",
    "evaluation.evaluations",
    "evaluation.keep_weights",
)


def differences(old: RunSettings, new: RunSettings) -> dict[str, tuple[Any, Any]]:
    """Dotted names of the settings that determine a run and differ, with both values."""
    a, b = flat(old.identity()), flat(new.identity())
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}


def settings_of(directory: RunDirectory) -> RunSettings:
    """The settings of a run that is to be continued; all files that it was made with must be imported again."""
    manifest = Run(directory.path).manifest
    if missing := missing_imports(manifest.get("imports", [])):
        raise needs_imports(directory.path, missing)
    return build(RunSettings, manifest["settings"])


def in_words(changed: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key} is {old} there and {new} here" for key, (old, new) in changed.items())


def fork_path(path: Path, settings: RunSettings) -> Path:
    """The folder of a fork: beside the original, named by its settings, so that the same command finds it again."""
    return path.with_name(f"{path.name}-fork-{settings.key()[:8]}")


def check_fork(source: RunDirectory, settings: RunSettings) -> None:
    changed = differences(settings_of(source), settings)
    fixed = {key: both for key, both in changed.items() if not any(fnmatch(key, free) for free in CHANGEABLE)}
    if fixed:
        raise UserError(
            f"--fork: a copy keeps weights and measurements, but {in_words(fixed)}; "
            f"it may change {', '.join(CHANGEABLE)}; for another run choose another --out"
        )


def copy_run(source: RunDirectory, target: Path, manifest: dict[str, Any], steps: int) -> None:
    """Copy the run up to its last intact checkpoint into a folder that gets its name when it is complete.

    One process copies at a time. A second one that asks for the same fork is refused, or finds it complete.
    """
    partial = target.with_name(f".{target.name}{files.PARTIAL}")
    with WriterLock(target.parent, name=f"{partial.name}-lock"):
        if RunDirectory(target).begun:
            return
        if partial.exists():  # of a copy that was interrupted
            shutil.rmtree(partial)
        copy_to(source, partial, manifest, steps)
        with files.named_disk_errors(target):
            files.disk.replace(partial, target)
            files.sync_folder(target.parent)


def copy_to(source: RunDirectory, target: Path, manifest: dict[str, Any], steps: int) -> None:
    """Copy the run up to its last intact checkpoint."""
    found = source.last_good()
    if found is None:
        raise UserError(f"--fork: {str(source.path)!r} has no intact checkpoint to start from; choose another --out")
    if found.step >= steps:
        fix = f"its last checkpoint is that of step {found.step}; raise training.steps"
        raise UserError(f"--fork: {str(source.path)!r} leaves nothing to train up to training.steps = {steps}: {fix}")
    origin = {"path": source.path.absolute().name, "step": found.step, "settings": source.manifest()["settings"]}
    copy = RunDirectory.create(target, {**manifest, "forked_from": origin})
    copy_rows(source, copy, until=found.step)
    copy.write_checkpoint(found.step, found.tensors)


def copy_rows(source: RunDirectory, copy: RunDirectory, until: int) -> None:
    """Copy rows with their artifacts, and timings, up to a step: its row belongs to its checkpoint.

    A checkpoint from the middle of an evaluation names the row before; its state is the same after the evaluation.
    """
    entries, _ = source.journal.entries()
    for entry in entries:
        step = int(entry.row["step"])
        if step > until:
            break
        for kind in KINDS:
            if kind in entry.row:
                copy.artifacts[kind].put(step, source.artifacts[kind].intact(step, entry.row[kind]))
        copy.journal.append(entry.row)
    for timed in source.timings.rows():
        if timed["step"] <= copy.journal.last_step:
            copy.timings.append(timed)
