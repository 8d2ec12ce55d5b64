"""What every trial of the soak has: random numbers, a folder, files beside it that nobody may touch, judgement."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults import Fault, FaultyDisk
from forked import LIMIT, Ended, Forked, Send, call_command

from twoclocks.store import files

CODES = {0, 2, 3, 4, 5, 6, 7, 130}  # exit codes of docs/reliability.md
NOBODY = 65534


class WrongError(Exception):
    """What must never happen has happened."""


@dataclass
class Trial:
    """One fault against one subject. All its choices come from ``generator``, that is, from seed and number."""

    number: int
    generator: random.Random
    folder: Path
    notes: list[str] = field(default_factory=list)  # what was done, for a failure
    processes: list[Forked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        (self.outside / "canary").write_bytes(b"nobody writes here\n")
        self.inside = self.folder / "inside"  # for the subject alone
        self.inside.mkdir()
        self.inside.chmod(0o777)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def fork(self, function: Any) -> Forked:
        process = Forked(function)
        self.processes.append(process)
        return process

    def command(self, *words: str | Path, fault: Fault | None = None) -> Forked:
        """``twoclocks WORDS`` in a process of its own, on a disk with a fault."""
        return self.fork(lambda send: run_commands(send, [words], fault))

    def guard_outside(self) -> None:
        """Remember what is outside now, to be compared at the end."""
        self.before = snapshot(self.outside)

    def check_outside(self) -> None:
        if snapshot(self.outside) != self.before:
            raise WrongError(
                f"a file outside the folder was changed: {difference(self.before, snapshot(self.outside))}"
            )
        odd = sorted(path.name for path in self.folder.iterdir() if path.name not in ("outside", "inside"))
        if odd:
            raise WrongError(f"left beside the folder: {odd}")

    def close(self, keep: bool) -> None:
        """End all processes of the trial, and remove its folder or move it to where it stays."""
        for process in self.processes:
            if process.ended is None:
                process.kill()
            process.kill_all()
        if keep:
            place = Path(tempfile.mkdtemp(prefix=f"twoclocks-trial-{self.number}-"))
            shutil.move(self.folder, place / "trial")
            self.note(f"kept in {place / 'trial'}")
        else:
            remove_tree(self.folder)


def run_commands(send: Send, commands: Sequence[Sequence[str | Path]], fault: Fault | None = None) -> int:
    """In a child: some commands one after the other; the exit code is that of the last."""
    files.disk = FaultyDisk(fault)
    code = 0
    for words in commands:
        reply = call_command(words)
        send(reply)
        code = reply["code"] if isinstance(reply["code"], int) else 1
    return code


def snapshot(folder: Path) -> dict[str, tuple[int, str, int]]:
    """Type, SHA-256 and time of everything below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        changed = 0 if path.is_dir() else about.st_mtime_ns
        found[str(path.relative_to(folder))] = (stat.S_IFMT(about.st_mode), hashlib.sha256(data).hexdigest(), changed)
    return found


def difference(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def remove_tree(folder: Path) -> None:
    """Remove a folder whatever its modes are."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            if not (Path(place) / name).is_symlink():
                (Path(place) / name).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def give_up_rights(folder: Path) -> None:
    """In a child of root, which can read everything: go on as nobody, who owns the folder."""
    if os.getuid() != 0:
        return
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            os.chown(path, NOBODY, NOBODY)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def check_end(ended: Ended, allowed: Sequence[int] | set[int] = CODES) -> Ended:
    """No hang, no traceback, and an exit code that the documentation names."""
    names = [reply["name"] for reply in ended.sent if "name" in reply]
    last = names[-1] if names else "the first command"
    if ended.code is None:
        raise WrongError(f"hangs for more than {LIMIT[0]:.0f} s after {last}")
    for reply in ended.sent:
        if reply.get("traceback"):
            raise WrongError(
                f"{reply['name']}: traceback: {reply['traceback'].strip().splitlines()[-1]}\n{reply['traceback']}"
            )
        if "code" in reply and reply["code"] not in CODES:
            raise WrongError(f"{reply['name']}: exit code {reply['code']}")
        if reply.get("code", 0) not in (0, 6, 7) and not reply["err"].strip():
            raise WrongError(f"{reply['name']}: exit code {reply['code']} without a word")
    if ended.code not in allowed:
        said = ended.sent[-1].get("err", "").strip() if ended.sent else ""
        raise WrongError(f"{last}: ended with {ended.code}, not one of {sorted(allowed)}: {said[-500:]}")
    return ended
