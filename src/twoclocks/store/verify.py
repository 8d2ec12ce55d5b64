"""Is everything on disk what was written? Reads every byte of a run directory, or of all in a tree; changes nothing."""

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
from twoclocks.store.lock import is_held
from twoclocks.store.run_directory import DERIVED, FOLDERS, OURS, RunDirectory

SIGNS = {"manifest.json", "status.json", "metrics.jsonl"}  # any of them makes a folder a run, or what is left of one


@dataclass
class Findings:
    """What is wrong in one place, and what is odd but harmless: what a crash left and the next start clears."""

    path: Path
    status: str = "unknown"
    checked: int = 0  # files
    damage: list[str] = field(default_factory=list)
    harmless: list[str] = field(default_factory=list)
    readable: bool = True  # without its manifest, or with links in it, the rest of a run is not looked at

    @property
    def intact(self) -> bool:
        return not self.damage


def verify_tree(folder: Path) -> list[Findings]:
    """Every run below a folder, and every sealed description of a sweep."""
    if not folder.exists():
        raise UserError(f"{folder}: does not exist; give a run directory or a folder of them")
    if folder.is_symlink():
        raise UserError(f"{folder}: is a symbolic link; give the folder itself")
    found = [verify_run(path) for path in runs_below(folder)]
    found += [verify_document(path) for path in sorted(folder.rglob("sweep.json"))]
    if not found:
        raise UserError(f"{folder}: holds no run; give a run directory or a folder of them")
    return found


def runs_below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        if SIGNS & set(names):
            folders.clear()
            yield Path(place)
        folders.sort()


def verify_document(path: Path) -> Findings:
    findings = Findings(path, "sweep", checked=1)
    try:
        decode_document(files.read(path))
    except UserError as error:
        findings.damage.append(f"{path.name}: is damaged ({error})")
    return findings


def verify_run(path: Path) -> Findings:
    """What is found in one run; a run that is being written is looked at again before it is called damaged."""
    for _ in range(3):
        findings = examine(path)
        if findings.intact or not is_held(path):
            break
        time.sleep(0.2)
    return findings


def examine(path: Path) -> Findings:
    findings = Findings(path)
    try:
        run = RunDirectory(path)
    except UserError as error:
        findings.damage.append(str(error))
        return findings
    status = check_documents(run, findings)
    findings.status = status.get("status", "unknown")
    check_names(run, findings)
    if findings.readable:
        links = check_rows(run, findings)
        check_checkpoints(run, links, findings)
        if findings.status == "finished":
            check_end(run, status, links, findings)
    if is_held(path):
        findings.harmless.append("lock: a process writes this run now")
    elif (path / "lock").exists():
        findings.harmless.append("lock: its process is dead; the next one takes it over")
    if findings.status == "running" and not is_held(path):
        findings.status = "unfinished"
    return findings


def check_documents(run: RunDirectory, findings: Findings) -> dict[str, Any]:
    """Manifest and status; the status."""
    findings.readable = False
    if not run.begun:
        findings.damage.append("manifest.json: is missing")
    else:
        findings.checked += 1
        try:
            origin = run.manifest()["origin"]
            findings.readable = True
            if run.path.parent.name == "cells" and not origin.startswith(run.path.name):
                findings.damage.append("manifest.json: is that of another cell")
        except UserError as error:
            findings.damage.append(short(run, error))
    path = run.path / "status.json"
    if not path.exists():
        begun = (run.path / "metrics.jsonl").exists() or run.checkpoint_steps()
        (findings.damage if begun else findings.harmless).append("status.json: is missing")
        return {}
    findings.checked += 1
    try:
        return decode_document(files.read(path))
    except UserError as error:
        findings.damage.append(f"status.json: is damaged ({error})")
        return {}


def check_rows(run: RunDirectory, findings: Findings) -> list[str]:
    """Metrics, the samples they name, timings; the links of all intact rows."""
    for journal in (run.journal, run.timings):
        if journal.path.exists():
            findings.checked += 1
            entries, problem = journal.entries()
            if problem is not None:
                findings.damage.append(short(run, problem))
            elif journal.path.stat().st_size != (entries[-1].end if entries else 0):
                findings.harmless.append(f"{journal.path.name}: its last line is torn; it is computed anew")
    entries, _ = run.journal.entries()
    timed = {entry.row["step"] for entry in run.timings.entries()[0]}
    for entry in entries:
        step = entry.row["step"]
        for kind in KINDS:
            if kind in entry.row:
                check_kept(run, kind, int(step), entry.row[kind], findings)
        if step not in timed and entry is not entries[-1]:
            findings.damage.append(f"timings.jsonl: lacks step {step}")
    for kind in KINDS:
        extra = set(run.artifacts[kind].steps()) - {entry.row["step"] for entry in entries}
        findings.harmless += [f"{kind} of step {step}: have no row; they are computed anew" for step in sorted(extra)]
    return [run.journal.start, *(entry.link for entry in entries)]


def check_kept(run: RunDirectory, kind: str, step: int, written: str, findings: Findings) -> None:
    kept = run.artifacts[kind]
    if not kept.path(step).exists():
        findings.damage.append(f"{kind}/{kept.path(step).name}: is missing")
        return
    findings.checked += 1
    try:
        kept.intact(step, written)
    except UserError as error:
        findings.damage.append(short(run, error))


def check_checkpoints(run: RunDirectory, links: Iterable[str], findings: Findings) -> None:
    known = set(links)
    steps = run.checkpoint_steps()
    for step in steps:
        findings.checked += 2
        try:
            about, _ = run.checkpoints.intact(step)
            if about["link"] not in known:
                findings.damage.append(f"metrics.jsonl: lacks rows that the checkpoint of step {step} counts on")
        except UserError as error:
            findings.damage.append(short(run, error))
    loose = set(steps_in(run.checkpoints.folder, ".safetensors")) - set(steps)
    findings.harmless += [f"tensors of step {step}: were never committed; they are not used" for step in sorted(loose)]


def check_names(run: RunDirectory, findings: Findings) -> None:
    """Everything else that lies there: links are refused, leftovers and strangers named."""
    for path in sorted(run.path.rglob("*")):
        name = path.relative_to(run.path)
        if path.is_symlink():
            findings.damage.append(f"{name}: is a symbolic link")
            findings.readable = False
        elif path.name.endswith(files.PARTIAL):
            findings.harmless.append(f"{name}: was being written when a process died")
        elif name.parts[0] == DERIVED:
            continue
        elif name.parts[0] not in OURS or (len(name.parts) > 1 and not path.name.startswith("step-")):
            findings.harmless.append(f"{name}: is not part of a run")
    for folder in FOLDERS:
        if not (run.path / folder).is_dir():
            findings.damage.append(f"{folder}: is missing")


def check_end(run: RunDirectory, status: dict[str, Any], links: list[str], findings: Findings) -> None:
    """A finished run says how many rows and which checkpoints it ended with."""
    if status.get("link") != links[-1] or status.get("rows") != len(links) - 1:
        findings.damage.append(
            f"metrics.jsonl: has {len(links) - 1} intact rows, the run ended with {status.get('rows')}"
        )
    if status.get("checkpoints") != run.checkpoint_steps():
        ended = status.get("checkpoints")
        findings.damage.append(f"checkpoints: are of steps {run.checkpoint_steps()}, the run ended with {ended}")
    timed = len(run.timings.entries()[0])
    if timed != status.get("rows"):
        findings.damage.append(f"timings.jsonl: has {timed} intact rows, the run ended with {status.get('rows')}")


def short(run: RunDirectory, problem: object) -> str:
    """A problem without the path of the run, which stands above it."""
    return str(problem).replace(f"{run.path}/", "")
