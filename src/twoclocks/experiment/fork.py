"""Same or not: which settings of a run differ, and a copy that goes on from its last checkpoint with others."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from twoclocks.core.config import build, flat
from twoclocks.core.errors import UserError
from twoclocks.experiment.settings import RunSettings
from twoclocks.store import files
from twoclocks.store.run_directory import SAMPLES, RunDirectory

# What a copy may change: its weights stay usable and its rows comparable.
FREE = ("training.*", "clocks.*", "evaluation.steps", "evaluation.first", "evaluation.evaluations")


def differences(old: RunSettings, new: RunSettings) -> dict[str, tuple[Any, Any]]:
    """Dotted names of the settings that determine a run and differ, with both values."""
    a, b = flat(old.identity()), flat(new.identity())
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}


def settings_of(directory: RunDirectory) -> RunSettings:
    return build(RunSettings, directory.manifest()["settings"])


def in_words(changed: dict[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key} is {old} there and {new} here" for key, (old, new) in changed.items())


def fork_path(path: Path, settings: RunSettings) -> Path:
    """Beside the original and named by its settings, so that the same command finds the same copy."""
    return path.with_name(f"{path.name}-fork-{settings.key()[:8]}")


def check_fork(source: RunDirectory, settings: RunSettings) -> None:
    changed = differences(settings_of(source), settings)
    fixed = {key: both for key, both in changed.items() if not any(fnmatch(key, free) for free in FREE)}
    if fixed:
        raise UserError(
            f"--fork: a copy keeps weights and measurements, but {in_words(fixed)}; it may change {', '.join(FREE)}; "
            "for another run choose another --out"
        )


def copy_state(source: RunDirectory, target: RunDirectory, steps: int) -> dict[str, Any]:
    """The run up to its last good checkpoint; returns where it came from, for the manifest."""
    found = source.last_good()
    if found is None:
        raise UserError(f"--fork: {str(source.path)!r} has no good checkpoint to start from; choose another --out")
    if found.step > steps:
        fix = f"its last checkpoint is that of step {found.step}"
        raise UserError(f"--fork: {str(source.path)!r} went further than training.steps = {steps}; {fix}")
    for folder in ("checkpoints", "samples"):
        files.make_folder(target.path / folder)
    target.journal.begin(0)
    target.timings.begin(0)
    entries, _ = source.journal.entries()
    for entry in entries:
        if target.journal.link == found.link:
            break
        step = entry.row["step"]
        if SAMPLES in entry.row:
            files.write_atomic(target.samples_path(step), files.read(source.samples_path(step)))
        target.journal.append(entry.row)
    for timed in source.timings.rows():
        if timed["step"] <= target.journal.last_step:
            target.timings.append(timed)
    target.write_checkpoint(found.step, found.tensors)
    return {"path": str(source.path), "step": found.step, "settings": source.manifest()["settings"]}
