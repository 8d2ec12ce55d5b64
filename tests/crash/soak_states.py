"""Soak of monitor states and of committed rows: small files, thousands of trials."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from faults import ERRORS, Fault, FaultyDisk
from forked import Send, call_function
from power import WORLDS, RememberingDisk, restore
from tampering import KINDS, tamper
from trials import Trial, WrongError, check_end, give_up_rights

import twoclocks as tc
from twoclocks.store import files

LOOKS = 5
ROWS = 12


def new_monitor(other: bool = False) -> Any:
    rows = np.random.default_rng(1 if other else 0).integers(0, 2, size=(16, 12))
    return tc.Monitor(train=rows)


def observe(monitor: Any, step: int) -> None:
    generator = np.random.default_rng(step)
    new = generator.integers(0, 2, size=(40, 12))
    copied = monitor.train_rows_for_soak[generator.integers(0, 16, size=5 * step)]
    monitor.observe(100 * step, np.concatenate([new, copied]))


def watched(looks: int, other: bool = False) -> Any:
    """A monitor that has seen so many evaluations."""
    monitor = new_monitor(other)
    monitor.train_rows_for_soak = np.random.default_rng(1 if other else 0).integers(0, 2, size=(16, 12))
    for step in range(1, looks + 1):
        observe(monitor, step)
    return monitor


@dataclass
class StateReference:
    """The states after each look, as bytes of their files, and what is decided after the last."""

    folder: Path
    saved: list[bytes]
    decision: dict[str, Any]
    history: list[dict[str, dict[Path, bytes | None]]]


def prepare_states(folder: Path) -> StateReference:
    folder.mkdir()
    saved = []
    before, files.disk = files.disk, RememberingDisk()
    try:
        (folder / "powered").mkdir()
        for looks in range(1, LOOKS + 1):
            watched(looks).save((folder / "powered" / "state.json").absolute())
            saved.append((folder / "powered" / "state.json").read_bytes())
        history = files.disk.history  # type: ignore[attr-defined]
    finally:
        files.disk = before
    (folder / "other").mkdir()
    watched(LOOKS, other=True).save(folder / "other" / "state.json")
    return StateReference(folder, saved, plain(watched(LOOKS).decision().as_dict()), history)


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def go_on(path: Path, looks: int) -> dict[str, Any]:
    """Load a state, observe what is left, save, and decide."""
    monitor = watched(0)
    monitor.load(path)
    for step in range(1, LOOKS + 1):
        if monitor.last_step is None or 100 * step > monitor.last_step:
            observe(monitor, step)
    monitor.save(path)
    return {"bytes": path.read_bytes().decode(), "decision": plain(monitor.decision().as_dict())}


def judge_state(trial: Trial, ref: StateReference, path: Path, must_load: bool, nobody: bool = False) -> str:
    """The state loads, and ends as the undisturbed one does; or it is refused."""

    def check(send: Send) -> None:
        files.disk = FaultyDisk()
        if nobody:
            give_up_rights(trial.inside)
        send(call_function("load", lambda: go_on(path, LOOKS)))
        send(call_function("save", lambda: watched(LOOKS).save(path)))

    loaded, saved = check_end(trial.fork(check).wait(), {0}).sent
    if loaded["code"] != 0:
        if must_load:
            raise WrongError(f"an intact state is refused: {loaded['err']}")
        return "detected"
    if loaded["value"]["bytes"].encode() != ref.saved[-1] or loaded["value"]["decision"] != ref.decision:
        raise WrongError("a state was loaded that the monitor never had")
    if saved["code"] == 0 and (left := [entry.name for entry in path.parent.iterdir() if entry != path]):
        raise WrongError(f"save left {left}")
    return "equal"


def state_at_call(kinds: list[str]) -> Callable[[Trial, StateReference], str]:
    """A fault at a disk call of ``save``; the file holds the state before or the new one."""

    def make(trial: Trial, ref: StateReference) -> str:
        path, looks = trial.inside / "state.json", trial.generator.randint(0, LOOKS - 1)
        fault = Fault(trial.generator.randint(1, 7), trial.generator.choice(kinds))
        trial.note(f"{fault} at the state after {looks + 1} looks")
        if looks:
            path.write_bytes(ref.saved[looks - 1])

        def save(send: Send) -> None:
            files.disk = FaultyDisk(fault)
            send(call_function("save", lambda: watched(looks + 1).save(path)))

        check_end(trial.fork(save).wait(), {0, -9})
        if not path.exists():
            if looks:
                raise WrongError("the state before is gone")
            return "equal"
        if path.read_bytes() not in [ref.saved[looks], *([ref.saved[looks - 1]] if looks else [])]:
            raise WrongError("the file is neither the state before nor the new one")
        for left in trial.inside.glob(".*"):
            left.unlink()  # a killed process cannot remove it, and the next save has another name
        return judge_state(trial, ref, path, must_load=True)

    return make


def state_damaged(kind: str) -> Callable[[Trial, StateReference], str]:
    def make(trial: Trial, ref: StateReference) -> str:
        path, looks = trial.inside / "state.json", trial.generator.randint(1, LOOKS)
        path.write_bytes(ref.saved[looks - 1])
        if kind == "files swapped":
            path.write_bytes(trial.generator.choice(ref.saved))
            return judge_state(trial, ref, path, must_load=True)
        trial.note(tamper(kind, trial.inside, trial.outside, [ref.folder / "other"], trial.generator))
        trial.guard_outside()
        return judge_state(trial, ref, path, must_load=kind == "file times changed", nobody=kind == "unreadable file")

    return make


def state_power_cut(trial: Trial, ref: StateReference) -> str:
    number, world = trial.generator.randrange(len(ref.history)), trial.generator.choice(WORLDS)
    trial.note(f"after call {number}, {world}")
    source, path = (ref.folder / "powered").absolute(), trial.inside / "made"
    left = {place: data for place, data in ref.history[number][world].items() if place.is_relative_to(source)}
    restore(left, source, path)
    if not (path / "state.json").exists():
        return "equal"
    for extra in path.glob(".*"):
        extra.unlink()
    if (path / "state.json").read_bytes() not in ref.saved:
        raise WrongError("the file is no state that was saved")
    return judge_state(trial, ref, path / "state.json", must_load=True)


def states_at_once(trial: Trial, ref: StateReference) -> str:
    """Several processes save to the same file, one is killed; the file is one of their states."""
    path = trial.inside / "state.json"

    def save(looks: int, fault: Fault | None) -> Callable[[Send], None]:
        def saving(send: Send) -> None:
            files.disk = FaultyDisk(fault)
            for _ in range(5):
                watched(looks).save(path)

        return saving

    fault = Fault(trial.generator.randint(1, 20), "kill")
    children = [trial.fork(save(looks, fault if looks == 2 else None)) for looks in (1, 2, LOOKS)]
    for child in children:
        check_end(child.wait(), {0, -9})
    if path.read_bytes() not in ref.saved:
        raise WrongError("the file is none of the states")
    for left in trial.inside.glob(".*"):
        left.unlink()
    return judge_state(trial, ref, path, must_load=True)


STATE_FAULTS: dict[str, tuple[float, Callable[[Trial, StateReference], str]]] = {
    "kill -9 at disk calls": (3, state_at_call(["kill", "torn"])),
    **{f"{kind} at a disk call": (1, state_at_call([kind])) for kind in ERRORS},
    **{kind: (1, state_damaged(kind)) for kind in KINDS},
    "bit flipped": (4, state_damaged("bit flipped")),
    "document forged": (4, state_damaged("document forged")),
    "power cut": (2, state_power_cut),
    "several writers at once": (1, states_at_once),
}
