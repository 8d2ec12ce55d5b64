"""Random faults of every kind against runs, sweeps, monitor states and committed rows, for as long as one likes.

    python tests/crash/soak.py --minutes 60 --processes 2 --seed 0 --out results/soak.json
    python tests/crash/soak.py --seed 0 --trial 1234 --keep          one trial again, and its folder

Every trial follows from its seed and number; only the speed of the machine differs. Each is one line of FILE.jsonl
beside --out as soon as it is over, so that a soak that is killed keeps its counts; the same command goes on with the
next number. --out has the counts by subject and fault: *equal*, it ended with the same bytes as if nothing had
happened; *detected*, the damage was named; *wrong*, anything else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import secrets
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parent

SHARES = {"run": 60, "sweep": 8, "monitor state": 16, "committed rows": 16}  # of the trials, in percent


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the counts are stored, for example results/soak.json")
    parser.add_argument("--folder", type=Path, help="where the trials are made (default: a temporary folder)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a command counts as hung")
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed trials")
    parser.add_argument("--trial", type=int, help="run this trial alone")
    parser.add_argument("--only", default="", metavar="TEXT", help="only trials with this text in subject or fault")
    return parser.parse_args()


class Worker:
    """Runs trials one after the other in a folder of its own."""

    def __init__(self, folder: Path, seed: int, keep: bool, only: str) -> None:
        from soak_rows import ROW_FAULTS, prepare_rows
        from soak_run_faults import RUN_FAULTS
        from soak_runs import prepare
        from soak_states import STATE_FAULTS, prepare_states
        from soak_sweeps import SWEEP_FAULTS, prepare_sweeps

        self.folder, self.seed, self.keep, self.only, self.shares = folder, seed, keep, only, SHARES
        folder.mkdir()
        folder.chmod(0o755)
        self.faults: dict[str, dict[str, Any]] = {
            "run": RUN_FAULTS,
            "sweep": SWEEP_FAULTS,
            "monitor state": STATE_FAULTS,
            "committed rows": ROW_FAULTS,
        }
        if find_spec("pyarrow") is None:  # the table of a sweep needs it
            self.shares = {**SHARES, "sweep": 0}
        self.prepare: dict[str, list[Any]] = {  # what is called once, when it is first needed
            "run": [lambda name=name: prepare(name, folder / name) for name in ("demo-gpt", "demo")],
            "sweep": [lambda: prepare_sweeps(folder / "sweeps")],
            "monitor state": [lambda: prepare_states(folder / "states")],
            "committed rows": [lambda: prepare_rows(folder / "rows")],
        }
        self.ready: dict[Any, Any] = {}

    def reference(self, subject: str, generator: random.Random) -> Any:
        """What a trial of the subject copies and compares with."""
        chosen = generator.choice(self.prepare[subject])
        if chosen not in self.ready:
            self.ready[chosen] = chosen()
        return self.ready[chosen]

    def trial(self, number: int) -> dict[str, Any] | None:
        """One trial as a row; None where ``only`` leaves it out."""
        from trials import Trial, WrongError

        generator = random.Random(f"{self.seed}/{number}")
        subject = generator.choices(list(self.shares), list(self.shares.values()))[0]
        faults = self.faults[subject]
        fault = generator.choices(list(faults), [weight for weight, _ in faults.values()])[0]
        if self.only not in f"{subject}: {fault}":
            return None
        reference = self.reference(subject, generator)
        begin, detail, outcome = time.perf_counter(), "", "wrong"
        trial = Trial(number, generator, self.folder / f"trial-{number}")
        trial.guard_outside()
        try:
            outcome = faults[fault][1](trial, reference)
            trial.check_outside()
        except WrongError as error:
            outcome, detail = "wrong", str(error)
        except BaseException as error:
            outcome, detail = "wrong", f"the soak itself: {error}\n{traceback.format_exc()}"
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            trial.close(keep=self.keep and outcome == "wrong")
        row = {"seed": self.seed, "number": number, "subject": subject, "fault": fault, "outcome": outcome}
        row["seconds"] = round(time.perf_counter() - begin, 3)
        if outcome == "wrong":
            row |= {"detail": detail[:6000], "notes": trial.notes}
        return row


def work(folder: Path, arguments: argparse.Namespace, first: int, until: float, writing: int) -> None:
    """The main function of a process: every ``--processes``-th trial, until the time is over."""
    parent = os.getppid()
    worker = Worker(folder, arguments.seed, arguments.keep, arguments.only)
    number = first
    while time.monotonic() < until and os.getppid() == parent:
        row = worker.trial(number)
        if row is not None:
            os.write(writing, json.dumps(row).encode() + b"\n")
        number += arguments.processes


def rows_in(path: Path) -> list[dict[str, Any]]:
    """All rows of an earlier soak; a line that was cut short is left out."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


class Record:
    """The rows of this soak and of those before it with the same --out, and their counts."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.out, self.begin = arguments, arguments.out, time.monotonic()
        self.lines = None if self.out is None else self.out.with_suffix(".jsonl")
        self.rows = [] if self.lines is None else rows_in(self.lines)
        self.session, self.saved = secrets.token_hex(4), 0.0
        self.wrong = 0  # of this soak alone

    @property
    def trials(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if "outcome" in row]

    @property
    def next_number(self) -> int:
        return max([row["number"] for row in self.trials if row["seed"] == self.arguments.seed], default=-1) + 1

    def add(self, row: dict[str, Any]) -> None:
        """Store a row; say what was wrong."""
        self.rows.append(row)
        if self.lines is not None:
            with self.lines.open("ab") as stream:  # a line before it may have been cut short: it ends here
                stream.write(b"\n" * (stream.tell() > 0) + json.dumps(row).encode())
        if row.get("outcome") == "wrong":
            self.wrong += 1
            print(f"WRONG seed {row['seed']} trial {row['number']}: {row['subject']}: {row['fault']}")
            print(f"  {row['notes']}\n  {row['detail'].strip()}", flush=True)

    def save(self, every: float = 0.0) -> None:
        """Store the counts, if they were not within so many seconds."""
        if time.monotonic() - self.saved < every:
            return
        from twoclocks.store.files import write_json

        self.saved = time.monotonic()
        self.add({"session": self.session, "minutes": (self.saved - self.begin) / 60})
        if self.out is not None:
            write_json(self.out, self.summary())
        print(f"{self.rows[-1]['minutes']:.1f} minutes, {len(self.trials)} trials, {self.wrong} wrong", flush=True)

    def summary(self) -> dict[str, Any]:
        """Counts by subject and fault, how long they took, and where."""
        from twoclocks.store.provenance import commit, machine, versions

        counts: dict[tuple[str, str], Counter[str]] = {}
        for row in self.trials:
            counts.setdefault((row["subject"], row["fault"]), Counter()).update(["tried", row["outcome"]])
        order = {subject: place for place, subject in enumerate(SHARES)}
        table = [
            {"subject": subject, "fault": fault, **{key: one[key] for key in ("tried", "equal", "detected", "wrong")}}
            for (subject, fault), one in sorted(counts.items(), key=lambda item: (order[item[0][0]], item[0][1]))
        ]
        chosen = {key: getattr(self.arguments, key) for key in ("minutes", "processes", "seed", "only")}
        words = " ".join(f"--{key} {value!r}" for key, value in chosen.items() if value not in ("", None))
        minutes = {row["session"]: row["minutes"] for row in self.rows if "session" in row}
        return {
            "command": f"python tests/crash/soak.py {words} --out FILE",
            "commit": commit(),
            "versions": versions(),
            "machine": {**machine("cpu"), "cores": os.cpu_count()},
            "minutes": round(sum(minutes.values()), 1),
            "processes": self.arguments.processes,
            "seed": self.arguments.seed,
            "trials": len(self.trials),
            "runs": table,
            "wrong": [without_places(row) for row in self.trials if row["outcome"] == "wrong"],
        }


def without_places(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a stored result: its text names no folders of this machine."""
    return {**row, "detail": re.sub(r"(/[^/\s\"':]+){2,}/", "…/", row.get("detail", ""))}


def collect(pipes: list[int]) -> Iterator[dict[str, Any] | None]:
    """Rows from all processes until they have ended; None about every ten seconds."""
    buffers = dict.fromkeys(pipes, b"")
    while buffers:
        ready = select.select(list(buffers), [], [], 10)[0]
        for pipe in ready:
            data = os.read(pipe, 1 << 16)
            if not data:
                del buffers[pipe]
                continue
            *lines, buffers[pipe] = (buffers[pipe] + data).split(b"\n")
            for line in lines:
                yield json.loads(line)
        yield None


def soak(arguments: argparse.Namespace, folder: Path) -> int:
    """Start the processes, store each row as it comes, and the counts from time to time."""
    until = time.monotonic() + 60 * arguments.minutes
    record = Record(arguments)
    first = record.next_number
    pipes, children = [], []
    for index in range(arguments.processes):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                work(folder / f"worker-{index}", arguments, first + index, until, writing)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writing)
        pipes.append(reading)
        children.append(child)
    try:
        for row in collect(pipes):
            if row is not None:
                record.add(row)
            else:
                record.save(every=30)
    finally:
        record.save()
    for child in children:
        os.waitpid(child, 0)
    return int(record.wrong > 0 or not record.trials)


def warm_up() -> None:
    """Import what commands import, so that processes that are forked from this one need not."""
    from importlib import import_module

    from twoclocks.sweeps.fork_server import preload

    preload()
    for name in ("cli", "report.console", "report.summary", "runs", "sweeps.table"):
        import_module(f"twoclocks.{name}")


def main() -> int:
    arguments = arguments_of()
    sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent), str(HERE)]
    os.environ.update(OMP_NUM_THREADS="1", TWOCLOCKS_CACHE="0")  # one core per process; no cache outside the folder
    import forked
    import torch

    from twoclocks.store import lock

    forked.LIMIT[0] = arguments.limit
    torch.set_num_threads(1)
    warm_up()
    for name in ("TIMEOUT", "SETTLE"):  # damage to a lock file can make its holder look like one on another machine
        if hasattr(lock, name):
            setattr(lock, name, 0.1)
    with tempfile.TemporaryDirectory(prefix="twoclocks-soak-", dir=arguments.folder) as made:
        folder = Path(made)
        folder.chmod(0o755)
        if arguments.trial is None:
            return soak(arguments, folder)
        row = Worker(folder / "worker", arguments.seed, arguments.keep, "").trial(arguments.trial)
        assert row is not None
        print(json.dumps({key: value for key, value in row.items() if key != "detail"}, indent=2))
        print(row.get("detail", ""))
        return int(row["outcome"] == "wrong")


if __name__ == "__main__":
    raise SystemExit(main())
