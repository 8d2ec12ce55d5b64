"""Soak of committed rows: lines that a journal has appended, and results that are stored as one file of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import ERRORS, Fault, FaultyDisk
from forked import Send, call_function
from power import WORLDS, RememberingDisk, restore
from tampering import KINDS, tamper
from trials import Trial, WrongError, check_end, give_up_rights

from twoclocks.store import files
from twoclocks.store.files import write_json
from twoclocks.store.journal import Journal

ROWS = 8
START = "7" * 64


TEXTS = ("name",)  # columns of ``row`` that are no numbers


def row(number: int) -> dict[str, Any]:
    return {"step": number, "loss": 1 / (1 + number), "hits": number * number, "name": "τ_rule " * (number % 3)}


def result(number: int) -> dict[str, Any]:
    return {"command": "soak", "commit": "0" * 40, "runs": [row(one) for one in range(5 * number + 1)]}


def encoded(value: Any) -> bytes:
    return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"


@dataclass
class RowReference:
    folder: Path
    data: bytes  # of all rows
    rows: list[dict[str, Any]]
    committed: list[int]  # rows that were committed after each disk call
    history: list[dict[str, dict[Path, bytes | None]]]


def append_rows(path: Path, upto: int = ROWS, committed: Callable[[int], None] = lambda count: None) -> int:
    """Continue the journal after its last intact row; its number of rows."""
    journal = Journal(path, START, texts=TEXTS)
    entries, _ = journal.entries()
    journal.begin(len(entries))
    for number in range(len(entries), upto):
        journal.append(row(number))
        committed(number + 1)
    return len(entries)


def prepare_rows(folder: Path) -> RowReference:
    folder.mkdir()
    path = (folder / "powered" / "rows.jsonl").absolute()
    path.parent.mkdir()
    disk = RememberingDisk()
    before, files.disk = files.disk, disk
    marks: list[tuple[int, int]] = []
    try:
        append_rows(path, committed=lambda count: marks.append((disk.calls, count)))
    finally:
        files.disk = before
    committed = [max([count for call, count in marks if call <= number], default=0) for number in range(disk.calls)]
    (folder / "other").mkdir()
    other = Journal(folder / "other" / "rows.jsonl", "8" * 64, texts=TEXTS)
    other.begin(0)
    for number in range(ROWS):
        other.append({**row(number), "hits": -1})
    return RowReference(folder, path.read_bytes(), [row(number) for number in range(ROWS)], committed, disk.history)


def judge_rows(trial: Trial, ref: RowReference, path: Path, least: int, nobody: bool = False) -> str:
    """What is read is a beginning of what was written, no committed row is missing; then the rest is appended."""

    def check(send: Send) -> None:
        files.disk = FaultyDisk()
        if nobody:
            give_up_rights(trial.inside)

        def read() -> Any:
            entries, problem = Journal(path, START, texts=TEXTS).entries()
            return {"rows": [entry.row for entry in entries], "problem": problem}

        send(call_function("entries", read))
        send(call_function("sound", lambda: len(Journal(path, START, texts=TEXTS).sound())))
        send(call_function("append", lambda: append_rows(path)))
        send(call_function("entries", read))

    found, sound, appended, after = check_end(trial.fork(check).wait(), {0}).sent
    if found["code"] != 0:
        return "detected"
    rows, problem = found["value"]["rows"], found["value"]["problem"]
    if rows != ref.rows[: len(rows)]:
        raise WrongError("rows are read that were never written")
    if problem is None and len(rows) < least:
        raise WrongError(f"{least} rows were committed, {len(rows)} are read, without a word")
    if (problem is None) != (sound["code"] == 0):
        raise WrongError("entries() and sound() disagree")
    if appended["code"] != 0:
        return "detected"
    if after["code"] != 0 or after["value"]["rows"] != ref.rows or after["value"]["problem"] is not None:
        raise WrongError("after the rest was appended, the rows are not those of the undisturbed journal")
    if path.read_bytes() != ref.data:
        raise WrongError("the file is another one than the undisturbed")
    return "detected" if problem is not None else "equal"


def rows_at_call(kinds: list[str]) -> Callable[[Trial, RowReference], str]:
    def make(trial: Trial, ref: RowReference) -> str:
        path = trial.inside / "rows.jsonl"
        fault = Fault(trial.generator.randint(1, len(ref.history)), trial.generator.choice(kinds))
        trial.note(str(fault))

        def append(send: Send) -> None:
            files.disk = FaultyDisk(fault)
            count = lambda number: send({"name": "committed", "count": number, "err": ""})  # noqa: E731
            send(call_function("append", lambda: append_rows(path, committed=count)))

        ended = check_end(trial.fork(append).wait(), {0, -9})
        least = max([message.get("count", 0) for message in ended.sent], default=0)
        return judge_rows(trial, ref, path, least)

    return make


def rows_damaged(kind: str) -> Callable[[Trial, RowReference], str]:
    def make(trial: Trial, ref: RowReference) -> str:
        path = trial.inside / "rows.jsonl"
        path.write_bytes(ref.data)
        if kind == "files swapped":  # an earlier state of the file, as from a backup: shorter, but true
            lines = ref.data.splitlines(keepends=True)
            path.write_bytes(b"".join(lines[: trial.generator.randint(0, ROWS)]))
        else:
            trial.note(tamper(kind, trial.inside, trial.outside, [ref.folder / "other"], trial.generator))
        trial.guard_outside()
        # The links cannot say how long the file was, and a last line without its end looks like one of a crash.
        shorter = kind in ("file truncated", "file deleted", "files swapped", "page zeroed")
        if kind == "document forged":
            return judge_forged(trial, path)
        return judge_rows(trial, ref, path, 0 if shorter else ROWS - 1, nobody=kind == "unreadable file")

    return make


def judge_forged(trial: Trial, path: Path) -> str:
    """Rows with recomputed links are another journal: the end of the run tells, not this file; no traceback."""

    def check(send: Send) -> None:
        files.disk = FaultyDisk()
        send(call_function("entries", lambda: len(Journal(path, START, texts=TEXTS).entries()[0])))

    found = check_end(trial.fork(check).wait(), {0}).sent[0]
    return "detected" if found["code"] or found["value"] < ROWS else "equal"


def rows_power_cut(trial: Trial, ref: RowReference) -> str:
    number, world = trial.generator.randrange(len(ref.history)), trial.generator.choice(WORLDS)
    trial.note(f"after call {number}, {world}")
    source, path = (ref.folder / "powered").absolute(), trial.inside / "made"
    left = {place: data for place, data in ref.history[number][world].items() if place.is_relative_to(source)}
    restore(left, source, path)
    return judge_rows(trial, ref, path / "rows.jsonl", ref.committed[number])


def result_at_call(kinds: list[str]) -> Callable[[Trial, RowReference], str]:
    """A fault while results are stored: the file is the one before or the new one, whole."""

    def make(trial: Trial, ref: RowReference) -> str:
        path, number = trial.inside / "result.json", trial.generator.randint(0, 5)
        fault = Fault(trial.generator.randint(1, 7), trial.generator.choice(kinds))
        trial.note(str(fault))
        if number:
            path.write_bytes(encoded(result(number - 1)))

        def write(send: Send) -> None:
            files.disk = FaultyDisk(fault)
            send(call_function("write", lambda: write_json(path, result(number))))

        check_end(trial.fork(write).wait(), {0, -9})
        allowed = [encoded(result(number)), encoded(result(number - 1)) if number else None]
        if (path.read_bytes() if path.exists() else None) not in allowed:
            raise WrongError("the file is neither the result before nor the new one")
        return "equal"

    return make


def result_link(trial: Trial, ref: RowReference) -> str:
    """A planted link or an odd file in the place of a result: it is replaced or refused, never written through."""
    path = trial.inside / "result.json"
    path.write_bytes(encoded(result(1)))
    odd = [kind for kind in KINDS if "in place" in kind or "link" in kind]
    kind = trial.generator.choice(odd)
    trial.note(f"{kind}: {tamper(kind, trial.inside, trial.outside, [], trial.generator)}")
    trial.guard_outside()

    def write(send: Send) -> None:
        files.disk = FaultyDisk()
        send(call_function("write", lambda: write_json(path, result(2))))

    written = check_end(trial.fork(write).wait(), {0}).sent[0]
    if written["code"] == 0 and (path.is_symlink() or path.read_bytes() != encoded(result(2))):
        raise WrongError("the result was not stored in the folder itself")
    return "equal" if written["code"] == 0 else "detected"


ROW_FAULTS: dict[str, tuple[float, Callable[[Trial, RowReference], str]]] = {
    "kill -9 at disk calls": (3, rows_at_call(["kill", "torn"])),
    **{f"{kind} at a disk call": (1, rows_at_call([kind])) for kind in ERRORS},
    **{kind: (1, rows_damaged(kind)) for kind in KINDS},
    "power cut": (2, rows_power_cut),
    "kill -9 at disk calls of a result": (2, result_at_call(["kill", "torn"])),
    **{f"{kind} at a disk call of a result": (1, result_at_call([kind])) for kind in ERRORS},
    "link or odd file in place of a result": (1, result_link),
}
