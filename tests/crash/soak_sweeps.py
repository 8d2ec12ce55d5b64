"""Soak of sweeps: coordinators, workers and fork servers killed, cells and tables damaged, two sweeps at once."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults import ERRORS, Fault, FaultyDisk
from forked import Forked, ForkedServer, Send
from sweep_campaigns import contents, write_spec
from tampering import KINDS, tamper
from trials import Trial, WrongError, check_end, give_up_rights, run_commands

from twoclocks.store import files
from twoclocks.store.lock import is_held
from twoclocks.sweeps import dispatch, fork_server, read_plan
from twoclocks.sweeps.local import LocalPool

CELLS = 3
LIMIT = 2  # times that of other commands
COLUMNS = ("cell", "state", "tau_rule_lower", "tau_mem_lower", "verdict", "last_loss_train", "training.seed")


@dataclass
class SweepReference:
    spec: Path
    finished: Path
    contents: dict[str, str] = field(default_factory=dict)
    table: list[dict[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    calls: int = 0
    seconds: float = 0.0

    @property
    def cells(self) -> list[str]:
        return list(self.contents)


def words_of(ref: SweepReference, out: Path, *more: str) -> list[str | Path]:
    return ["sweep", ref.spec, "--out", out, "--workers", "2", "--checkpoint-seconds", "0", "--json", *more]


def serve() -> None:
    """The main function of a fork server; the disk of the coordinator may be faulty, that of its workers is not."""
    files.disk = FaultyDisk()
    fork_server.main()


def sweep_commands(send: Send, commands: Any, fault: Fault | None = None) -> int:
    """Commands whose fork servers are forked from here, which saves the import of torch."""
    LocalPool.start_server = lambda self: ForkedServer(serve)  # type: ignore[method-assign,assignment]
    dispatch.BUSY_SECONDS = 0.2
    return run_commands(send, commands, fault)


def table_of(root: Path) -> list[dict[str, str]]:
    """The columns of the table that depend on the settings alone."""
    rows = csv.DictReader(io.StringIO((root / "table.csv").read_text()))
    return [{name: row[name] for name in COLUMNS if name in row} for row in rows]


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def prepare_sweeps(folder: Path) -> SweepReference:
    folder.mkdir()
    ref = SweepReference(write_spec(folder / "sweep.yaml", CELLS, steps=2), folder / "finished")

    def undisturbed(send: Send) -> None:
        sweep_commands(send, [words_of(ref, ref.finished)])
        send({"calls": files.disk.calls})  # type: ignore[attr-defined]

    ended = check_end(Forked(undisturbed).wait(LIMIT), {0})
    ref.calls = ended.sent[-1]["calls"]
    begin = time.perf_counter()
    Forked(lambda send: sweep_commands(send, [words_of(ref, folder / "timed")])).wait(LIMIT)
    ref.seconds = time.perf_counter() - begin
    ref.contents = contents(ref.finished, read_plan(ref.spec))
    ref.table, ref.names = table_of(ref.finished), names_in(ref.finished)
    return ref


def judge_sweep(trial: Trial, ref: SweepReference, root: Path, nobody: bool = False) -> str:
    """Ask for the status, run the sweep again, and compare every cell and the table."""

    def check(send: Send) -> None:
        if nobody:
            give_up_rights(trial.inside)
        verify: list[str | Path] = ["verify", root, "--json"]
        commands = [words_of(ref, root, "--status"), words_of(ref, root), verify, words_of(ref, root, "--status")]
        sweep_commands(send, commands)

    replies = check_end(trial.fork(check).wait(LIMIT), {0, 2, 7}).sent
    again, verified, status = replies[1:]
    if again["code"] in (2, 5):
        return "detected"
    if again["code"] not in (0, 7):
        raise WrongError(f"sweep: exit code {again['code']}: {again['err'][-300:]}")
    states = {cell["cell"]: cell["state"] for cell in json.loads(status["out"])["cells"]}
    rows = {row["cell"]: row for row in table_of(root)}
    expected = {row["cell"]: row for row in ref.table}
    if set(rows) != set(ref.cells) or len(table_of(root)) != CELLS:
        raise WrongError(f"the table has the cells {sorted(rows)}")
    for key in ref.cells:
        if rows[key]["state"] == "finished" and rows[key] != expected[key] and verified["code"] == 0:
            raise WrongError(f"verify says intact, and the table has other numbers for {key}: {rows[key]}")
    if again["code"] == 7:
        if all(state == "finished" for state in states.values()):
            raise WrongError("exit code 7, but no cell failed")
        return "detected"
    if set(states.values()) != {"finished"}:
        raise WrongError(f"exit code 0, and the cells are {states}")
    if verified["code"] != 0:
        return "detected"
    if contents(root, read_plan(ref.spec)) != ref.contents:
        raise WrongError("sweep and verify are content, but a cell is another one than the undisturbed")
    if rows != expected:
        raise WrongError(f"the table has other numbers: {rows}")
    if extra := {name for name in names_in(root) ^ ref.names if not name.endswith("/lock")}:  # of a worker that died
        raise WrongError(f"left behind or missing after a completed sweep: {sorted(extra)}")
    return "equal"


Make = Callable[[Trial, SweepReference], str]


def holders(root: Path) -> list[int]:
    """The processes that hold locks of cells."""
    found = []
    for path in root.glob("cells/*/lock"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            if is_held(path.parent):
                found.append(int(json.loads(path.read_bytes())["process"]))
    return found


def check_no_orphans(root: Path) -> None:
    """Workers end soon after their coordinator."""
    until = time.monotonic() + 30
    while (left := holders(root)) and time.monotonic() < until:
        time.sleep(0.05)
    if left:
        raise WrongError(f"workers {left} outlive their coordinator")


def coordinator_signalled(name: str) -> Make:
    def make(trial: Trial, ref: SweepReference) -> str:
        root = trial.inside / "sweep"
        for _ in range(trial.generator.randint(1, 2)):
            child = trial.fork(lambda send: sweep_commands(send, [words_of(ref, root)]))
            wait = trial.generator.uniform(0, ref.seconds)
            trial.note(f"{wait:.3f} s, then {name}")
            time.sleep(wait)
            child.signal(signal.Signals[name])
            check_end(child.wait(LIMIT), {0, 4, 130, -signal.Signals[name]})
            check_no_orphans(root)
        return judge_sweep(trial, ref, root)

    return make


def workers_killed(servers: bool) -> Make:
    """Workers, or their fork server, are killed while the sweep goes on; it must end well by itself."""

    def make(trial: Trial, ref: SweepReference) -> str:
        root, kills = trial.inside / "sweep", 0
        child = trial.fork(lambda send: sweep_commands(send, [words_of(ref, root, "--retries", "6")]))
        until = time.monotonic() + 2 * ref.seconds
        while time.monotonic() < until and kills < 3:
            time.sleep(trial.generator.uniform(0, ref.seconds / 3))
            for process in holders(root)[:1]:
                with contextlib.suppress(OSError, ValueError):
                    parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
                    if servers and parent == child.pid:
                        continue
                    os.kill(parent if servers else process, signal.SIGKILL)
                    kills += 1
        trial.note(f"{kills} killed")
        check_end(child.wait(LIMIT), {0})
        return judge_sweep(trial, ref, root)

    return make


def sweep_at_call(kinds: list[str], codes: set[int]) -> Make:
    """A fault at a disk call of the coordinator."""

    def make(trial: Trial, ref: SweepReference) -> str:
        root = trial.inside / "sweep"
        fault = Fault(trial.generator.randint(1, ref.calls), trial.generator.choice(kinds))
        trial.note(str(fault))
        check_end(trial.fork(lambda send: sweep_commands(send, [words_of(ref, root)], fault)).wait(LIMIT), codes)
        check_no_orphans(root)
        return judge_sweep(trial, ref, root)

    return make


def sweep_damaged(kind: str) -> Make:
    """One to three files of a finished sweep are damaged: of cells, the description, the table."""

    def make(trial: Trial, ref: SweepReference) -> str:
        root = trial.inside / "sweep"
        shutil.copytree(ref.finished, root)
        for _ in range(trial.generator.choice([1, 1, 2, 3])):
            others = [root / "cells" / key for key in ref.cells]
            place = root / "cells" / trial.generator.choice(ref.cells) if kind == "file of another run" else root
            trial.note(tamper(kind, place, trial.outside, others, trial.generator))
        trial.guard_outside()
        return judge_sweep(trial, ref, root, nobody=kind == "unreadable file")

    return make


def sweep_replaced(trial: Trial, ref: SweepReference) -> str:
    """The folder is removed or moved, or its lock is, while a sweep writes it; then the sweep runs again."""
    root, how = trial.inside / "sweep", trial.generator.choice(["rm -rf", "mv", "rm lock"])
    child = trial.fork(lambda send: sweep_commands(send, [words_of(ref, root)]))
    wait = trial.generator.uniform(0, ref.seconds)
    trial.note(f"{wait:.3f} s, then {how}")
    time.sleep(wait)
    with contextlib.suppress(OSError):
        if how == "rm -rf":
            shutil.rmtree(root)
        elif how == "mv":
            root.rename(trial.inside / "moved")
        else:
            (root / "lock").unlink()
    check_end(child.wait(LIMIT), {0, 2, 5, 7})
    return judge_sweep(trial, ref, root)


def two_sweeps(trial: Trial, ref: SweepReference) -> str:
    root = trial.inside / "sweep"
    children = [trial.fork(lambda send: sweep_commands(send, [words_of(ref, root)])) for _ in range(2)]
    codes = [check_end(child.wait(LIMIT), {0, 2}).code for child in children]
    if 0 not in codes:
        raise WrongError(f"of two sweeps at once, none finished: {codes}")
    return judge_sweep(trial, ref, root)


SWEEP_FAULTS: dict[str, tuple[float, Make]] = {
    "kill -9 at random times": (2, coordinator_signalled("SIGKILL")),
    **{f"{name} at a random time": (1, coordinator_signalled(name)) for name in ("SIGTERM", "SIGINT", "SIGHUP")},
    "workers killed": (3, workers_killed(servers=False)),
    "fork server killed": (2, workers_killed(servers=True)),
    "kill -9 at disk calls": (2, sweep_at_call(["kill", "torn"], {0, -9})),
    **{f"{kind} at a disk call": (1, sweep_at_call([kind], {5})) for kind in ERRORS},
    **{kind: (1, sweep_damaged(kind)) for kind in KINDS},
    "folder removed or moved under a sweep": (2, sweep_replaced),
    "two sweeps at once": (2, two_sweeps),
}
