"""Verify run directories: read every file and compare it with its checksum, without changing anything."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twoclocks.core.errors import UserError
from twoclocks.store import files
from twoclocks.store.artifacts import KINDS, steps_in
from twoclocks.store.checksums import decode_document
from twoclocks.store.folders import DERIVED, FOLDERS, OURS
from twoclocks.store.journal import Entry, Journal
from twoclocks.store.lock import is_held
from twoclocks.store.run_directory import RunDirectory, Snapshot

RUN_FILES = {"manifest.json", "status.json", "metrics.jsonl"}  # a folder with any of them is a run, or its remains


@dataclass
class Findings:
    """Damage found in one run directory, and harmless leftovers of a crash, which the next start removes."""

    path: Path
    status: str = "unknown"
    checked: int = 0  # files
    damage: list[str] = field(default_factory=list)
    harmless: list[str] = field(default_factory=list)
    readable: bool = True  # without its manifest, or with links in it, the rest of a run is not read

    @property
    def intact(self) -> bool:
        return not self.damage


def verify_tree(folder: Path) -> list[Findings]:
    """Verify every run below a folder, and every description of a sweep (sweep.json)."""
    if not folder.exists():
        raise UserError(f"{folder}: does not exist; give a run directory or a folder of them")
    if folder.is_symlink():
        raise UserError(f"{folder}: is a symbolic link; give the folder itself")
    found = list(verify_below(folder))
    if not found:
        raise UserError(f"{folder}: contains no run; give a run directory or a folder of them")
    return found


def verify_below(folder: Path) -> Iterator[Findings]:
    """The findings of every run and every sweep in a tree; what cannot be read is named, and the others follow."""
    unreadable: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=unreadable.append):
        path = Path(place)
        for left in [name for name in folders if name.endswith(files.PARTIAL)]:
            folders.remove(left)
            yield Findings(
                path / left, "copy", harmless=["is an incomplete copy (--fork); the same command removes it"]
            )
        if RUN_FILES & {*names, *folders}:  # a folder in a file's place is damage
            folders.clear()
            yield verify_run(path)
        elif "sweep.json" in (*names, *folders):
            yield verify_document(path / "sweep.json")
        folders.sort()
        yield from (unreadable_folder(error) for error in unreadable)
        unreadable.clear()


def unreadable_folder(error: OSError) -> Findings:
    """A folder whose names the system does not list."""
    return Findings(Path(error.filename), damage=[f"cannot be read ({error.strerror})"], readable=False)


def verify_document(path: Path) -> Findings:
    """Verify the SHA-256 of one JSON document."""
    findings = Findings(path, "sweep", checked=1)
    try:
        decode_document(files.read(path, files.DOCUMENT))
    except UserError as error:
        findings.damage.append(f"{path.name}: is damaged ({error})")
    return findings


def verify_run(path: Path) -> Findings:
    """Verify one run; a run that is being written is read up to three times before it counts as damaged."""
    for _ in range(3):
        findings = verify_run_once(path)
        if findings.intact or not is_held(path):
            break
        time.sleep(0.2)
    return findings


def verify_run_once(path: Path) -> Findings:
    """Verify all files of one run."""
    findings = Findings(path)
    try:
        run: RunDirectory = Snapshot(path)
    except UserError as error:
        findings.damage.append(str(error))
        return findings
    try:
        status = check_documents(run, findings)
        findings.status = status["status"]
        check_names(run, findings)
        if findings.readable:
            links = check_rows(run, findings)
            check_checkpoints(run, links, findings)
            check_end(run, status, links, findings)
    except (UserError, OSError) as error:  # for example a folder that cannot be listed
        findings.damage.append(f"cannot be read to its end ({without_path(run, error)})")
    if is_held(path):
        findings.harmless.append("lock: a process writes this run now")
    elif (path / "lock").exists():
        findings.harmless.append("lock: its process is dead; the next one takes it over")
    if findings.status == "running" and not is_held(path):
        findings.status = "unfinished"
    return findings


def check_documents(run: RunDirectory, findings: Findings) -> dict[str, Any]:
    """Verify manifest and status; return the status."""
    findings.readable = False
    if not run.begun:
        findings.damage.append("manifest.json: is missing")
    else:
        findings.checked += 1
        try:
            origin = run.manifest()["origin"]
            findings.readable = True
            if run.path.parent.name == "cells" and not origin.startswith(run.path.name):
                findings.damage.append("manifest.json: belongs to another cell")
        except UserError as error:
            findings.damage.append(without_path(run, error))
    status = run.status()
    if not os.path.lexists(run.path / "status.json"):
        begun = os.path.lexists(run.path / "metrics.jsonl") or run.checkpoint_steps()
        (findings.damage if begun else findings.harmless).append("status.json: is missing")
        return status
    findings.checked += 1
    if "problem" in status:
        findings.damage.append(without_path(run, status["problem"]).replace(" ", ": ", 1))
    return status


def check_journal(run: RunDirectory, journal: Journal, findings: Findings) -> list[Entry]:
    """Verify metrics or timings; return all intact rows."""
    if not os.path.lexists(journal.path):
        return []
    findings.checked += 1
    try:
        entries, problem = journal.entries()
        size = journal.path.stat().st_size
    except (UserError, OSError) as error:
        findings.damage.append(without_path(run, error))
        return []
    if problem is not None:
        findings.damage.append(without_path(run, problem))
    elif size != (entries[-1].end if entries else 0):
        findings.harmless.append(f"{journal.path.name}: its last line is incomplete; it is computed again")
    return entries


def check_rows(run: RunDirectory, findings: Findings) -> list[str]:
    """Verify metrics, the artifacts they name, and timings; return the links of all intact rows."""
    entries = check_journal(run, run.journal, findings)
    timed = {entry.row["step"] for entry in check_journal(run, run.timings, findings)}
    for entry in entries:
        step = entry.row["step"]
        for kind in KINDS:
            if kind in entry.row:
                check_artifact(run, kind, int(step), entry.row[kind], findings)
        if step not in timed and entry is not entries[-1]:
            findings.damage.append(f"timings.jsonl: lacks step {step}")
    for kind in KINDS:
        extra = set(run.artifacts[kind].steps()) - {entry.row["step"] for entry in entries}
        findings.harmless += [f"{kind} of step {step}: have no row; they are computed again" for step in sorted(extra)]
    return [run.journal.start, *(entry.link for entry in entries)]


def check_artifact(run: RunDirectory, kind: str, step: int, written: str, findings: Findings) -> None:
    """Verify one file of samples or weights against the SHA-256 of its row."""
    artifacts = run.artifacts[kind]
    if not os.path.lexists(artifacts.path(step)):
        findings.damage.append(f"{kind}/{artifacts.path(step).name}: is missing")
        return
    findings.checked += 1
    try:
        artifacts.intact(step, written)
    except UserError as error:
        findings.damage.append(without_path(run, error))


def check_checkpoints(run: RunDirectory, links: Iterable[str], findings: Findings) -> None:
    """Verify all checkpoints, and that the rows before them are there."""
    known = set(links)
    steps = run.checkpoint_steps()
    for step in steps:
        findings.checked += 2
        try:
            about, _ = run.checkpoints.intact(step)
            if about["link"] not in known:
                findings.damage.append(f"metrics.jsonl: lacks rows that the checkpoint of step {step} needs")
        except UserError as error:
            findings.damage.append(without_path(run, error))
    uncommitted = set(steps_in(run.checkpoints.folder, ".safetensors")) - set(steps)
    findings.harmless += [
        f"tensors of step {step}: have no description; they are not used" for step in sorted(uncommitted)
    ]


def check_names(run: RunDirectory, findings: Findings) -> None:
    """Report all other files: what is neither file nor folder is damage; leftovers and unknown files are harmless."""
    for path in sorted(run.path.rglob("*")):
        name = path.relative_to(run.path)
        if path.is_symlink():
            findings.damage.append(f"{name}: is a symbolic link")
            findings.readable = False
        elif not path.is_file() and not path.is_dir() and path.exists():  # a writer may have removed it since
            findings.damage.append(f"{name}: is not a regular file")
        elif path.name.endswith(files.PARTIAL):
            findings.harmless.append(f"{name}: is incomplete: a process died while writing it")
        elif name.parts[0] == DERIVED:
            continue
        elif name.parts[0] not in OURS or (len(name.parts) > 1 and not path.name.startswith("step-")):
            findings.harmless.append(f"{name}: is not part of a run")
    for folder in FOLDERS:
        if not (run.path / folder).is_dir():
            findings.damage.append(f"{folder}: is missing")


def check_end(run: RunDirectory, status: dict[str, Any], links: list[str], findings: Findings) -> None:
    """Compare rows and checkpoints with those that the status of a run that has ended names."""
    try:
        run.check_manifest(status)
    except UserError as error:
        findings.damage.append(without_path(run, error))
    finished = status["status"] == "finished"
    if (finished or "link" in status) and (status.get("link") != links[-1] or status.get("rows") != len(links) - 1):
        findings.damage.append(
            f"metrics.jsonl: has {len(links) - 1} intact rows, the run ended with {status.get('rows')}"
        )
    if not finished:
        return
    for step, written in status.get("described", {}).items():
        path, _ = run.checkpoints.paths(int(step))
        if os.path.lexists(path) and files.digest(files.read(path, files.DOCUMENT)) != written:
            findings.damage.append(f"checkpoints/{path.name}: is another one than that with which the run ended")
    if status.get("checkpoints") != run.checkpoint_steps():
        ended = status.get("checkpoints")
        findings.damage.append(f"checkpoints: have steps {run.checkpoint_steps()}, the run ended with {ended}")
    timed = len(check_journal(run, run.timings, Findings(run.path)))
    if timed != status.get("rows"):
        findings.damage.append(f"timings.jsonl: has {timed} intact rows, the run ended with {status.get('rows')}")


def without_path(run: RunDirectory, problem: object) -> str:
    """A problem without the path of its run, which is printed above it."""
    return str(problem).replace(f"{run.path}/", "")
