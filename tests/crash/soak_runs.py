"""Soak of runs: every fault against a small DiT and a small GPT, and what must hold afterwards."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from faults import Fault, FaultyDisk
from forked import Forked, Send, call_command, call_function
from power import RememberingDisk
from subjects import SMALL, fingerprint
from trials import Trial, WrongError, check_end, give_up_rights, run_commands

from twoclocks.core.errors import UserError
from twoclocks.store import files

STEPS = 4


@dataclass
class Reference:
    """One model: the run that nothing happens to, states of it when it was killed, and its fork."""

    preset: str
    spec: Path
    fork_spec: Path
    finished: Path
    unfinished: list[Path] = field(default_factory=list)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    forked: dict[str, Any] = field(default_factory=dict)
    numbers: dict[int, Any] = field(default_factory=dict)  # what readers print, by the step of the last row
    names: set[str] = field(default_factory=set)
    calls: int = 0
    seconds: float = 0.0
    history: list[dict[str, dict[Path, bytes | None]]] = field(default_factory=list)


def spec_of(preset: str, steps: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {name: dict(section) for name, section in SMALL.items()}
    chosen["training"]["steps"] = steps
    chosen["evaluation"]["steps"] = list(range(0, steps + 1, 2))
    if preset == "demo":
        chosen["objective"] = {"sampler_steps": 3}
    return {"base": preset, **chosen}


def words_of(spec: Path, out: Path, *more: str) -> list[str | Path]:
    return ["run", spec, "--out", out, "--checkpoint-seconds", "0", "--json", *more]


def numbers_of(printed: str) -> Any:
    """What ``clocks --json`` says of one run, without its place and its status."""
    (found,) = json.loads(printed)
    state = ("path", "status", "reason", "stopped_at", "lost", "unproven_end")
    return {key: value for key, value in found.items() if key not in state}


def status_of(printed: str) -> str:
    return str(json.loads(printed)[0]["status"])


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def prepare(preset: str, folder: Path, unfinished: int = 10) -> Reference:
    """Make what the trials of one model copy or compare with; ``unfinished``: how many states of a killed run."""
    folder.mkdir()
    ref = Reference(preset, folder / "run.yaml", folder / "fork.yaml", folder / "finished")
    ref.spec.write_text(yaml.safe_dump(spec_of(preset, STEPS)))
    ref.fork_spec.write_text(yaml.safe_dump(spec_of(preset, STEPS + 2)))

    def undisturbed(send: Send) -> None:
        files.disk = FaultyDisk()
        with observed(lambda progress: send({"numbers": call_command(["clocks", ref.finished, "--json"])["out"]})):
            reply = call_command(words_of(ref.spec, ref.finished))
        send(reply)
        calls = files.disk.calls
        send({"fingerprint": fingerprint(ref.finished), "calls": calls})
        send({"numbers": call_command(["clocks", ref.finished, "--json"])["out"]})
        (folder / "original").mkdir()
        shutil.copytree(ref.finished, folder / "original" / "run")
        send(call_command(words_of(ref.fork_spec, folder / "original" / "run", "--fork")))
        (forked,) = (folder / "original").glob("run-fork-*")
        send({"forked": fingerprint(forked)})

    begin = time.perf_counter()
    ended = check_end(Forked(undisturbed).wait())
    for message in ended.sent:
        if message.get("numbers"):
            numbers = numbers_of(message["numbers"])
            ref.numbers[numbers["last"]["step"]] = numbers
        ref.fingerprint = message.get("fingerprint", ref.fingerprint)
        ref.forked = message.get("forked", ref.forked)
        ref.calls = message.get("calls", ref.calls)
    ref.names = names_in(ref.finished)
    begin = time.perf_counter()
    Forked(lambda send: run_commands(send, [words_of(ref.spec, folder / "timed")])).wait()
    ref.seconds = time.perf_counter() - begin
    for number in range(unfinished):
        at = 12 + (ref.calls - 14) * (number + 1) // unfinished
        path = folder / f"unfinished-{number}"
        Forked(lambda send, at=at, path=path: run_commands(send, [words_of(ref.spec, path)], Fault(at, "kill"))).wait()
        ref.unfinished.append(path)
    other = folder / "other.yaml"
    other.write_text(yaml.safe_dump({**spec_of(preset, STEPS), "data": {"n": 4, "seed": 1}}))
    Forked(lambda send: run_commands(send, [words_of(other, folder / "other")])).wait()
    ref.history = power_history(ref, folder / "powered")
    return ref


def power_history(ref: Reference, path: Path) -> list[dict[str, dict[Path, bytes | None]]]:
    """What a power cut would leave after each disk call; in this process, since it is large."""
    before, files.disk = files.disk, RememberingDisk()
    try:
        reply = call_command(words_of(ref.spec, path))
        assert reply["code"] == 0, reply
        return files.disk.history  # type: ignore[attr-defined,no-any-return]
    finally:
        files.disk = before


@contextlib.contextmanager
def observed(observe: Callable[[Any], None]) -> Iterator[None]:
    """Let ``run`` call a function at every report, in place of its progress display."""
    from twoclocks.report import console

    @contextlib.contextmanager
    def watch(settings: Any) -> Iterator[Callable[[Any], None]]:
        yield observe

    before, console.watch = console.watch, watch  # type: ignore[assignment]
    try:
        yield
    finally:
        console.watch = before


def read_everything(path: Path) -> int:
    """Every artifact and the last checkpoint, through the library."""
    from twoclocks.runs import load_run

    done = load_run(path)
    for step in done.directory.artifact_steps("samples"):
        done.directory.read_artifact("samples", step)
    return done.directory.read_checkpoint().step


def fingerprint_of(path: Path) -> dict[str, Any]:
    """The fingerprint of a run that may lack files, or have something else in their place."""
    if odd := [entry for entry in path.rglob("*") if not (entry.is_file() or entry.is_dir())]:
        raise UserError(f"{odd[0]}: is not a file")
    try:
        return fingerprint(path)
    except OSError as error:
        raise UserError(str(error)) from None


def judge(
    trial: Trial,
    ref: Reference,
    path: Path,
    was_finished: bool = False,
    nobody: bool = False,
    forged: bool = False,
) -> str:
    """Read the run, start it again undisturbed, and compare: ``equal`` or ``detected``, else an error.

    ``nobody``: as a user without rights. ``forged``: rows with valid links that nothing anchors yet may be read.
    """

    def check(send: Send) -> None:
        files.disk = FaultyDisk()
        if nobody:
            give_up_rights(trial.inside)
        for _ in range(2):
            send(call_command(["verify", path, "--json"]))
            send(call_command(["clocks", path, "--json"]))
            send(call_function("read", lambda: read_everything(path)))
            if _ == 0:
                send(call_command(words_of(ref.spec, path)))
        send(call_function("fingerprint", lambda: fingerprint_of(path)))

    replies = check_end(trial.fork(check).wait(), {0}).sent
    assert len(replies) == 8, replies
    if was_finished or not forged:
        check_readers(ref, replies[0], replies[1], replies[2], was_finished)
    again, then = replies[3], replies[4:7]
    check_readers(ref, *then, was_finished=again["code"] == 0)
    found = replies[7]["value"]
    if again["code"] == 0 and then[0]["code"] == 0:
        if found != ref.fingerprint:
            raise WrongError("run and verify are content, but the run is another one than the undisturbed")
        names = names_in(path)
        left = (
            set() if was_finished else names - ref.names - {"lock"}
        )  # a finished run is not tidied; verify names them
        gone = {name for name in ref.names - names if not name.startswith("checkpoints/")}  # a lost one stays lost
        if left | gone:
            raise WrongError(f"left behind or missing after a completed run: {sorted(left | gone)}")
        return "equal"
    if again["code"] == 0 and found is not None and not found.items() <= {**ref.fingerprint, "clocks": None}.items():
        changed = [name for name, value in found.items() if ref.fingerprint.get(name) != value]
        unnamed = [name for name in changed if name != "clocks" and Path(name).stem not in then[0]["out"]]
        if unnamed:
            raise WrongError(f"verify names damage, but not that of {unnamed}: {then[0]['out'][:600]}")
    if again["code"] not in (0, 2, 5):
        raise WrongError(f"run: exit code {again['code']}: {again['err'][-300:]}")
    return "detected"


def check_readers(ref: Reference, verified: Any, clocks: Any, read: Any, was_finished: bool) -> None:
    """``verify`` and the readers agree, and nobody gets numbers that the undisturbed run never had."""
    intact = verified["code"] == 0
    if clocks["code"] == 0:
        numbers, status = numbers_of(clocks["out"]), status_of(clocks["out"])
        last = numbers["last"]["step"]
        said = verified["code"] != 0 and "cannot be proven" in clocks["err"]  # status and rows were both forged
        if numbers != ref.numbers.get(last) and not said:
            raise WrongError(f"clocks prints other numbers (verify: exit code {verified['code']}): {clocks['err']}")
        if last != STEPS and status == "finished":
            raise WrongError(f"clocks says finished, and prints the numbers of step {last}")
        if last != STEPS and was_finished and not clocks["err"].strip():
            raise WrongError(f"clocks prints the numbers of step {last} of a finished run without a word")
    elif intact and was_finished:
        raise WrongError(f"verify says intact, clocks refuses: {clocks['err'].strip()}")
    if intact and was_finished and read["code"] != 0:
        raise WrongError(f"verify says intact, reading refuses: {read['err']}")


def check_fork(trial: Trial, ref: Reference, path: Path) -> None:
    """A fork of the run must end as a fork of the undisturbed one does, and leave nothing beside it."""

    def fork(send: Send) -> None:
        files.disk = FaultyDisk()
        send(call_command(words_of(ref.fork_spec, path, "--fork")))
        for copy in path.parent.glob("run-fork-*"):
            send(call_command(["verify", copy, "--json"]))
            send(call_function("fingerprint of the fork", lambda copy=copy: fingerprint(copy)))

    replies = check_end(trial.fork(fork).wait(), {0}).sent
    if replies[0]["code"] != 0 or replies[1]["code"] != 0:
        raise WrongError(f"the fork is not intact: {replies[0]['err'][-300:]} {replies[1]['out'][-300:]}")
    if replies[2]["value"] != ref.forked:
        differ = [name for name, value in ref.forked.items() if (replies[2]["value"] or {}).get(name) != value]
        raise WrongError(f"the fork is another run than the fork of the undisturbed one: {differ}")
    hidden = [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")]
    if hidden:
        raise WrongError(f"the fork left {hidden}")
