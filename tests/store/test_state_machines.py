"""A run directory under any sequence of writes, crashes, full disks, damage and restarts, beside a model of it.

The model knows every byte that was written: what is read equals it, or is refused or named, and never something else.
"""

from __future__ import annotations

import logging
import math
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from dying_disk import Crash, dying, machine_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from twoclocks.core.errors import UserError
from twoclocks.store import files
from twoclocks.store.artifacts import KINDS
from twoclocks.store.checkpoints import Checkpoint
from twoclocks.store.run_directory import RunDirectory
from twoclocks.store.verify import verify_run


@dataclass
class Model:
    """What was written, byte for byte."""

    rows: list[dict[str, float]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)  # of metrics.jsonl
    timings: dict[float, bytes] = field(default_factory=dict)  # lines by step
    artifacts: dict[str, bytes] = field(default_factory=dict)  # by path; those of all rows
    checkpoints: dict[int, tuple[int, bytes, bytes]] = field(default_factory=dict)  # rows before, both files
    documents: dict[str, bytes] = field(default_factory=dict)  # manifest and status
    ended: str = ""  # the status of a run that has ended


class RunDirectoryMachine(RuleBasedStateMachine):
    @initialize()
    def create(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path, self.model, self.number, self.step = self.folder / "run", Model(), 0, 0
        self.directory: RunDirectory | None = RunDirectory.create(self.path, {"settings": {}})
        self.directory.set_status("running")
        for name in ("manifest.json", "status.json"):
            self.model.documents[name] = self.on_disk(name)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    # what a process does; each step is given to the model as soon as it is on disk

    def on_disk(self, name: str) -> bytes:
        path = self.path / name
        return path.read_bytes() if path.exists() else b""

    def tensors(self) -> dict[str, torch.Tensor]:
        self.number += 1
        return {"value": torch.tensor([self.number])}

    def evaluate(self) -> None:
        """As ``Session.on_evaluation``: artifacts, row, timing."""
        assert self.directory is not None
        model, last = self.model, self.directory.journal.last_step
        self.step = step = max(self.step, last + 1)
        kinds = KINDS[: 1 + step % 2]
        written = {kind: self.directory.artifacts[kind].write(step, self.tensors()) for kind in kinds}
        row = {"step": step, "x": self.number + 0.5, "y": math.nan}
        before = b"".join(model.lines)
        try:
            self.directory.append_metrics(row, written)
        finally:  # it may be complete although the call was not
            found = self.on_disk("metrics.jsonl")
            if found.startswith(before) and found.endswith(b"\n") and len(found) > len(before):
                model.lines.append(found.removeprefix(before))
                model.rows.append(row)
                for kind in kinds:
                    name = f"{kind}/step-{step:09d}.safetensors"
                    model.artifacts[name] = self.on_disk(name)
        before = b"".join(model.timings.values())
        try:
            self.directory.timings.append({"step": step, "seconds": 1.0, "evaluation_seconds": 0.5})
        finally:
            found = self.on_disk("timings.jsonl")
            if found.startswith(before) and found.endswith(b"\n") and len(found) > len(before):
                model.timings[step] = found.removeprefix(before)

    def store(self) -> None:
        assert self.directory is not None
        before, step = dict(self.model.checkpoints), self.step
        try:
            self.directory.write_checkpoint(step, self.tensors())
        finally:
            steps = self.directory.checkpoint_steps()
            about, stored = (self.on_disk(f"checkpoints/step-{step:09d}{end}") for end in (".json", ".safetensors"))
            if step in steps and before.get(step, (0, b""))[1] != about:
                self.model.checkpoints[step] = len(self.model.rows), about, stored
            assert set(steps) <= set(self.model.checkpoints), "a checkpoint that nobody wrote"
            older = [known for known in before if known < step]
            assert step not in steps or not older or max(older) in steps, "the last one but one stays"
            assert step in steps or steps == sorted(before), "none is removed before the new one is there"
            self.model.checkpoints = {step: self.model.checkpoints[step] for step in steps}
        assert len(steps) <= 2

    def end(self, word: str) -> None:
        assert self.directory is not None
        before = self.on_disk("status.json")
        try:
            self.directory.finish() if word == "finished" else self.directory.set_ended(word)
        finally:
            self.directory = None
            if self.on_disk("status.json") != before:
                self.model.documents["status.json"], self.model.ended = self.on_disk("status.json"), word

    def resume(self) -> None:
        """As ``Session.resume``: the newest good checkpoint; all that came after it is removed."""
        self.directory = None
        directory, model = RunDirectory.open(self.path), self.model
        if directory.finished:
            assert model.ended == "finished" and self.seen() == len(model.lines)
            return
        expected, found = self.newest_good(), directory.last_good()
        assert expected == (None if found is None else found.step)
        try:
            before = self.on_disk("status.json")
            directory.set_status("running")
        finally:
            if self.on_disk("status.json") != before:
                model.documents["status.json"], model.ended = self.on_disk("status.json"), ""
        self.rewind(directory, found)
        self.directory, self.step = directory, 0 if found is None else found.step

    def rewind(self, directory: RunDirectory, found: Checkpoint | None) -> None:
        model = self.model
        count = 0 if found is None else model.checkpoints[found.step][0]
        try:
            directory.rewind(found)
        finally:
            model.checkpoints = {step: model.checkpoints[step] for step in directory.checkpoint_steps()}
            if self.on_disk("metrics.jsonl") == b"".join(model.lines[:count]):
                del model.lines[count:], model.rows[count:]
                stems = {f"step-{row['step']:09d}" for row in model.rows}
                model.artifacts = {name: data for name, data in model.artifacts.items() if Path(name).stem in stems}
            kept = intact_lines(self.on_disk("timings.jsonl"), list(model.timings.values())[:count])
            if self.on_disk("timings.jsonl") == b"".join([*model.timings.values()][:kept]):  # damaged ones are lost
                model.timings = dict([*model.timings.items()][:kept])
        assert len(model.lines) == count, "rows after the checkpoint are gone"
        assert not list(self.path.rglob(f".*{files.PARTIAL}"))
        assert all(found is not None and step <= found.step for step in model.checkpoints)

    # what the model expects

    def seen(self) -> int:
        """Complete rows on disk, up to the first that is not what was written."""
        return intact_lines(self.on_disk("metrics.jsonl"), self.model.lines)

    def whole(self, step: int) -> bool:
        """Whether both files of a checkpoint are what was written."""
        _, about, stored = self.model.checkpoints[step]
        name = f"checkpoints/step-{step:09d}"
        return self.on_disk(f"{name}.json") == about and self.on_disk(f"{name}.safetensors") == stored

    def newest_good(self) -> int | None:
        good = [
            step for step, (rows, _, _) in self.model.checkpoints.items() if rows <= self.seen() and self.whole(step)
        ]
        return max(good, default=None)

    def links(self) -> int:
        """Rows that a checkpoint whose description is intact proves."""
        return max(
            (rows for step, (rows, about, _) in self.model.checkpoints.items() if self.described(step) == about),
            default=0,
        )

    def described(self, step: int) -> bytes:
        return self.on_disk(f"checkpoints/step-{step:09d}.json")

    def damaged(self) -> Iterator[str]:
        """What differs from what was written, other than by a crash; a crash may cost the end of an unfinished run."""
        model, seen = self.model, self.seen()
        begun = (self.path / "metrics.jsonl").exists() or any((self.path / "checkpoints").glob("*.json"))
        for name, data in model.documents.items():
            if self.on_disk(name) != data and (begun or (self.path / name).exists() or name != "status.json"):
                yield name
        if broken(self.on_disk("metrics.jsonl"), model.lines) or seen < self.links():
            yield "metrics.jsonl"
        if model.ended and seen != len(model.lines):
            yield "metrics.jsonl: its end"
        found, lines = self.on_disk("timings.jsonl"), list(model.timings.values())
        timed = list(model.timings)[: intact_lines(found, lines)]
        if broken(found, lines) or any(row["step"] not in timed for row in model.rows[: max(seen - 1, 0)]):
            yield "timings.jsonl"
        if model.ended == "finished" and len(timed) != len(model.lines):
            yield "timings.jsonl: its end"
        kept = {f"step-{row['step']:09d}" for row in model.rows[:seen]}
        yield from (
            name for name, data in model.artifacts.items() if Path(name).stem in kept and self.on_disk(name) != data
        )
        there = [step for step in model.checkpoints if (self.path / f"checkpoints/step-{step:09d}.json").exists()]
        yield from (f"checkpoint {step}" for step in there if not self.whole(step))
        if model.ended == "finished" and len(there) < len(model.checkpoints):
            yield "a checkpoint of a finished run"

    # rules

    writing = precondition(lambda self: self.directory is not None)
    closed = precondition(lambda self: self.directory is None)
    OPERATIONS = ("evaluate", "store", "finished", "interrupted", "failed", "resume")

    def operation(self, name: str) -> Callable[[], None]:
        known = {"evaluate": self.evaluate, "store": self.store, "resume": self.resume}
        return known.get(name, lambda: self.end(name))

    @writing
    @rule(steps=st.integers(1, 3))
    def train(self, steps: int) -> None:
        self.step += steps
        self.evaluate()

    @writing
    @rule()
    def checkpoint(self) -> None:
        self.store()

    @writing
    @rule(word=st.sampled_from(["finished", "interrupted", "failed"]))
    def stop(self, word: str) -> None:
        self.end(word)

    @closed
    @rule()
    def start_again(self) -> None:
        self.try_operation("resume")

    @rule(name=st.sampled_from(OPERATIONS), at=st.integers(1, 25), kind=st.sampled_from(["kill", "torn", "full"]))
    def die(self, name: str, at: int, kind: str) -> None:
        """The process dies, or the disk is full, at one of the calls of an operation."""
        if self.directory is None:
            name = "resume"
        with dying(at, kind) as disk:
            try:
                self.try_operation(name)
            except (Crash, files.DiskError):
                assert disk.met
                self.directory = None

    def try_operation(self, name: str) -> None:
        try:
            self.operation(name)()
        except files.DiskError:
            raise
        except UserError:
            assert name == "resume" and next(self.damaged(), None) == "manifest.json"

    @precondition(lambda self: self.directory is None and len(list(self.damaged())) < 2)
    @rule(seed=st.integers(0, 1 << 30), kind=st.sampled_from(["flip", "flip", "truncate", "delete", "swap"]))
    def damage(self, seed: int, kind: str) -> None:
        generator = random.Random(seed)
        there = sorted(path for path in self.path.rglob("*") if path.is_file() and path.stat().st_size)
        if not there:
            return
        often = [path for path in there if path.name in ("metrics.jsonl", "status.json")]  # most depends on them
        path = generator.choice([*there, *often, *often])
        content = bytearray(path.read_bytes())
        at = generator.randrange(len(content))
        if kind == "flip":
            content[at] ^= 1 << generator.randrange(8)
            path.write_bytes(content)
        elif kind == "truncate":
            path.write_bytes(content[:at])
        elif kind == "delete":
            path.unlink()
        else:
            other = generator.choice([one for one in there if one.suffix == path.suffix])
            path.write_bytes(other.read_bytes())
            other.write_bytes(content)

    @precondition(lambda self: self.directory is None and any(self.damaged()))
    @rule()
    def restore(self) -> None:
        """Somebody puts everything back from a copy."""
        model = self.model
        content = {**model.documents, **model.artifacts}
        content |= {"metrics.jsonl": b"".join(model.lines), "timings.jsonl": b"".join(model.timings.values())}
        for step, (_, about, stored) in model.checkpoints.items():
            name = f"checkpoints/step-{step:09d}"
            content |= {f"{name}.json": about, f"{name}.safetensors": stored}
        for name, data in content.items():
            (self.path / name).write_bytes(data)
        assert all("timings" in name for name in self.damaged()), "timings that a restart removed stay lost"

    @invariant()
    def what_is_read_was_written_or_is_refused(self) -> None:
        damage, reader = list(self.damaged()), RunDirectory(self.path)
        try:
            entries, problem = reader.rows_and_end()
            rows = list(reader.metrics())
        except UserError as error:
            assert damage, f"refused without damage: {error}"
            return
        seen = self.seen()
        assert repr(rows) == repr(self.model.rows[: len(rows)]) and len(rows) == len(entries) == seen
        if not damage:
            assert not problem
        if self.model.ended:
            assert seen == len(self.model.rows) or problem, "missing rows are named"
        if seen < self.links():
            assert problem, "rows that a checkpoint needs are missing"
        self.artifacts_and_checkpoints(reader, seen)

    def artifacts_and_checkpoints(self, reader: RunDirectory, seen: int) -> None:
        for kind in KINDS:
            for step in reader.artifact_steps(kind):
                path = reader.artifacts[kind].path(step)
                good = path.exists() and path.read_bytes() == self.model.artifacts[f"{kind}/{path.name}"]
                try:
                    reader.read_artifact(kind, step)
                    assert good
                except UserError:
                    assert not good
        for step in set(self.model.checkpoints) & set(reader.checkpoint_steps()):
            try:
                found = reader.read_checkpoint(step)
                assert self.whole(step) and found.step == step
            except UserError:
                assert list(self.damaged())

    @invariant()
    def verify_names_damage_and_nothing_else(self) -> None:
        found, damage = verify_run(self.path), list(self.damaged())
        assert found.intact == (not damage), (found.damage, damage)


def intact_lines(found: bytes, lines: list[bytes]) -> int:
    """How many of the lines a file still begins with."""
    count = end = 0
    while count < len(lines) and found.startswith(lines[count], end):
        end += len(lines[count])
        count += 1
    return count


def broken(found: bytes, lines: list[bytes]) -> bool:
    """Whether there is more after the lines that are intact than the incomplete line of a crash."""
    return b"\n" in found[sum(map(len, lines[: intact_lines(found, lines)])) :]


def test_a_run_directory(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.CRITICAL, "twoclocks")
    monkeypatch.setattr(files.disk, "sync", lambda descriptor: None)  # the tests' own disks need not be waited for
    RunDirectoryMachine.TestCase.settings = machine_settings(30, 30)
    RunDirectoryMachine.TestCase("runTest").runTest()
