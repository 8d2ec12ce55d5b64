"""A run on disk: its settings, measurements, checkpoints and samples.

manifest.json                       settings, versions, device, chance levels; written once, or when columns are added
status.json                         running, finished, interrupted, …; which process wrote, and when
metrics.jsonl                       one row per evaluation, a function of the settings alone
timings.jsonl                       how long the evaluations took, a property of the machine
checkpoints/                        the last two
samples/step-000001000.safetensors  decoded samples of an evaluation
weights/step-000001000.safetensors  the network at some evaluations, for dissection
dissection/                         measurements of these weights; may be deleted at any time
lock                                while a process writes
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoclocks.core.errors import UserError
from twoclocks.store import files
from twoclocks.store.artifacts import KINDS, Artifacts
from twoclocks.store.checkpoints import Checkpoint, Checkpoints, missing
from twoclocks.store.checksums import (
    START,
    DamagedError,
    Kinds,
    decode_document,
    encode_document,
    parse,
    require,
    settings_digest,
)
from twoclocks.store.folders import FOLDERS, PLACES, check_free, refuse_links
from twoclocks.store.journal import Entry, Journal, ReadOnceJournal

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 3  # 2 stored proportions as floats, 3 stores their hits; rows say themselves which they are
READABLE = (2, FORMAT)

TIMED = ("step", "seconds", "evaluation_seconds")  # columns of timings.jsonl
METRICS: dict[str, Any] = {"texts": KINDS, "foreign": ("evaluation_seconds",)}

MANIFEST: dict[str, Kinds] = {"format": int, "created": str, "origin": str}
STATUS: dict[str, Kinds] = {"status": str}
STATUS_MORE: dict[str, Kinds] = {
    **{"rows": int, "link": str, "checkpoints": list, "reason": str, "stopped_at": int, "seconds": (int, float)},
    **{"attempts": list, "lost": list, "manifest": str, "described": dict},
}
OLD_NAMES = {"sittings": "attempts"}  # keys of the status that earlier versions wrote

log = logging.getLogger("twoclocks")


class RunDirectory:
    """Reads and writes one run directory; it does not know what the numbers mean."""

    def __init__(self, path: Path, guard: files.Guard = files.unguarded) -> None:
        """``guard`` is called before every write; a process that shares the folder gives ``WriterLock.check``."""
        refuse_links(path)
        self.path, self.guard = path, guard
        self.checkpoints = Checkpoints(path / "checkpoints", guard)
        self.artifacts = {kind: Artifacts(path / kind, guard) for kind in KINDS}

    @cached_property
    def journal(self) -> Journal:
        """The metrics; their first link comes from the settings, so that rows of another run are recognised."""
        return Journal(self.path / "metrics.jsonl", self.manifest()["origin"], self.guard, **METRICS)

    @cached_property
    def timings(self) -> Journal:
        return Journal(self.path / "timings.jsonl", self.manifest()["origin"], self.guard, TIMED)

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> RunDirectory:
        """A new run, ready to be written."""
        check_free(path)
        files.make_folder(path)
        run = cls(path)
        run.begin(manifest)
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        run = cls(path)
        if not run.begun:
            raise UserError(f"{path}: is not a run directory (no manifest.json); give the folder that a run wrote")
        run.manifest()
        return run

    @property
    def begun(self) -> bool:
        """The manifest is written last, so a folder without one holds nothing yet."""
        return os.path.lexists(self.path / "manifest.json")

    def begin(self, manifest: Mapping[str, Any]) -> None:
        for folder in FOLDERS:
            files.make_folder(self.path / folder)
        whole = {"format": FORMAT, "created": now(), "origin": START, **manifest}
        files.write_atomic(self.path / "manifest.json", encode_document(whole), self.guard)

    def manifest_bytes(self) -> bytes:
        return files.read(self.path / "manifest.json", files.DOCUMENT)

    def manifest(self) -> dict[str, Any]:
        path, data = self.path / "manifest.json", self.manifest_bytes()
        try:
            version = parse(data).get("format")
            if isinstance(version, int) and version not in READABLE:  # an older one may have no checksum
                found = f"has format {version}, this version reads {' and '.join(map(str, READABLE))}"
                raise UserError(f"{self.path}: {found}; use the version that wrote it")
            manifest = decode_document(data)
            require(manifest, MANIFEST, {"settings": dict, "derived": dict, "metrics": list, "imports": list})
            if manifest["origin"] != START and manifest["origin"] != settings_digest(manifest.get("settings", {})):
                raise DamagedError("its field 'origin' is not that of its settings")
            return manifest
        except DamagedError as error:
            fix = "restore it, or remove the folder and run again"
            raise DamagedError(f"{path}: is damaged ({error}); {fix}") from None

    def upgrade(self, **entries: Any) -> None:
        """Let the manifest say the current format and these entries, before rows are appended that need them."""
        manifest = self.manifest()
        upgraded = {**manifest, **entries, "format": FORMAT}
        if upgraded != manifest:
            files.write_atomic(self.path / "manifest.json", encode_document(upgraded), self.guard)

    def status(self) -> dict[str, Any]:
        """The status; where it is damaged or missing, ``unknown`` with the ``problem``, and the run is unfinished."""
        path = self.path / "status.json"
        if not os.path.lexists(path):
            return {"status": "unknown", "problem": f"{path.name} is missing"}
        try:
            found = decode_document(files.read(path, files.DOCUMENT))
            require(found, STATUS, STATUS_MORE)
        except UserError as error:
            return {"status": "unknown", "problem": f"{path.name} is damaged ({str(error).removeprefix(f'{path}: ')})"}
        return {OLD_NAMES.get(key, key): value for key, value in found.items()}

    def set_status(self, status: str, **more: Any) -> None:
        value = {"status": status, "updated": now(), **more}
        files.write_atomic(self.path / "status.json", encode_document(value), self.guard)

    def finish(self, **more: Any) -> None:
        """Write the final status: from now on missing rows or other checkpoints count as damage."""
        self.journal.sound()
        self.checkpoints.prune(max(self.checkpoint_steps(), default=-1))
        self.set_ended("finished", checkpoints=self.checkpoint_steps(), **more)

    def set_ended(self, status: str, **more: Any) -> None:
        """Write how an attempt ended, with its last row, so that readers notice if rows are missing later."""
        entries, _ = self.journal.entries()
        self.set_status(status, rows=len(entries), link=self.journal.link_of(entries), **self.seals(), **more)

    def seals(self) -> dict[str, Any]:
        """SHA-256 of the manifest and of the checkpoints' descriptions, for the status: they are not in the rows."""
        described = {step: self.checkpoints.paths(step)[0] for step in self.checkpoint_steps()}
        digests = {str(step): files.digest(files.read(path)) for step, path in described.items()}
        return {"manifest": files.digest(self.manifest_bytes()), "described": digests}

    def check_manifest(self, status: Mapping[str, Any]) -> None:
        """DamagedError if the manifest is another one than that with which the run ended."""
        if "manifest" in status and status["manifest"] != files.digest(self.manifest_bytes()):
            found = "is another one than that with which the run ended"
            raise DamagedError(f"{self.path / 'manifest.json'}: {found}; restore it")

    @property
    def finished(self) -> bool:
        """Whether the run ended and still has all its rows."""
        if not self.begun or (status := self.status())["status"] != "finished":
            return False
        self.check_manifest(status)
        entries, problem = self.journal.entries()
        whole = problem is None and status.get("link") == self.journal.link_of(entries)
        if not whole:
            log.warning(f"{self.journal.path}: lacks rows of a run that was finished; they are computed again")
        return whole

    def append_metrics(self, row: Mapping[str, float], checksums: Mapping[str, str] | None = None) -> None:
        """Append a row with the SHA-256 of each kind of artifact. NaN is stored as null, as JSON has no NaN."""
        clean: dict[str, Any] = {
            k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()
        }
        self.journal.append({**clean, **(checksums or {})})

    def metrics(self) -> Iterator[dict[str, float]]:
        """The stored rows in order; a last line that a crash cut short is left out."""
        entries, problem = self.rows_and_end()
        if problem and entries:
            warn_once(f"{self.path}: its end cannot be proven: {problem}; rows may be missing, and clocks be others")
        for entry in entries:
            yield {key: math.nan if value is None else value for key, value in entry.row.items() if key not in KINDS}

    def rows_and_end(self) -> tuple[list[Entry], str]:
        """All rows, and why some may be missing at their end, which their own checksums cannot show; empty if not.

        DamagedError where rows of a finished run are missing.
        """
        status = self.status()  # before the rows: a run that finishes meanwhile has more rows than are read here
        known = {} if "link" in status else self.checkpoints.links()
        entries = self.journal.sound()
        self.check_manifest(status)
        if not entries and not known and "link" not in status:
            return entries, ""
        if "link" in status and status["link"] != self.journal.link_of(entries):
            ended = f"has {len(entries)} rows, the run ended with {status.get('rows')}"
            if status["status"] == "finished":
                raise DamagedError(f"{self.journal.path}: {ended}; run again to compute them again")
            return entries, f"{self.journal.path.name} {ended}"
        links = {self.journal.start, *(entry.link for entry in entries)}
        problems = [status.get("problem", "")]
        if needed := [step for step, link in known.items() if link not in links]:
            problems.append(f"{self.journal.path.name} lacks rows that the checkpoint of step {needed[-1]} needs")
        return entries, " and ".join(filter(None, problems))

    def write_checkpoint(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        self.checkpoints.write(step, tensors, self.journal.link)

    def checkpoint_steps(self) -> list[int]:
        return self.checkpoints.steps()

    def read_checkpoint(self, step: int | None = None) -> Checkpoint:
        """The checkpoint of a step, by default the last; a damaged one is refused."""
        steps, ended = self.checkpoint_steps(), self.status().get("checkpoints")
        if ended is not None and ended != steps:
            raise DamagedError(
                f"{self.checkpoints.folder}: holds steps {steps}, the run ended with {ended}; restore it"
            )
        if not steps or (step is not None and step not in steps):
            raise missing(self.path, step, steps)
        return self.checkpoints.read(steps[-1] if step is None else step)

    def last_good(self) -> Checkpoint | None:
        """The newest checkpoint that is intact and whose rows are; logs one line per checkpoint that is not."""
        entries, problem = self.journal.entries()
        if problem is not None:
            log.warning(f"{problem}; the rows from there on are computed again")
        links = {self.journal.start, *(entry.link for entry in entries)}
        for step in reversed(self.checkpoint_steps()):
            try:
                found = self.checkpoints.read(step)
            except DamagedError as error:
                log.warning(f"{error}; it is not used, the one before it is if that is intact")
                continue
            if found.link in links:
                return found
            lacks = f"lacks rows that the checkpoint of step {step} refers to"
            log.warning(f"{self.journal.path}: {lacks}; it is not used")
        return None

    def rewind(self, to: Checkpoint | None) -> None:
        """Remove what was written after the checkpoint ``to``; it is computed again."""
        entries, _ = self.journal.entries()
        links = [self.journal.start, *(entry.link for entry in entries)]
        self.journal.begin(0 if to is None else links.index(to.link))
        timed, _ = self.timings.entries()
        self.timings.begin(sum(entry.row["step"] <= self.journal.last_step for entry in timed))
        self.checkpoints.clear_after(-1 if to is None else to.step)
        if to is not None:
            self.checkpoints.prune(to.step)
        for left in (path for folder in (".", *PLACES) for path in (self.path / folder).glob(f".*{files.PARTIAL}")):
            files.remove(left, self.guard)

    def artifact_steps(self, kind: str) -> dict[int, str]:
        """Steps whose rows name a file of this kind, with its SHA-256."""
        return {int(row["step"]): row[kind] for row in self.journal.rows() if kind in row}

    def read_artifact(self, kind: str, step: int) -> dict[str, Tensor]:
        """The tensors stored at an evaluation; a damaged file is refused."""
        return self.artifacts[kind].read(step, self.artifact_steps(kind).get(step))


class Snapshot(RunDirectory):
    """A run directory that is only read: manifest, status and rows at their first use, and never again."""

    @cached_property
    def first_bytes(self) -> bytes:
        self.status()  # before the manifest: a run that ends meanwhile may have another one
        return super().manifest_bytes()

    @cached_property
    def first_manifest(self) -> dict[str, Any]:
        return super().manifest()

    def manifest_bytes(self) -> bytes:
        return self.first_bytes

    def manifest(self) -> dict[str, Any]:
        return self.first_manifest

    @cached_property
    def first_status(self) -> dict[str, Any]:
        return super().status()

    def status(self) -> dict[str, Any]:
        return dict(self.first_status)

    @cached_property
    def journal(self) -> Journal:
        self.status()  # before the rows: a status of later could speak of rows that are not among them
        return ReadOnceJournal(self.path / "metrics.jsonl", self.manifest()["origin"], **METRICS)

    @cached_property
    def timings(self) -> Journal:
        return ReadOnceJournal(self.path / "timings.jsonl", self.manifest()["origin"], numbers=TIMED)


@cache
def warn_once(message: str) -> None:
    """Log a warning once per process: the rows of one run are read several times."""
    log.warning(message)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
