"""Soak of runs, continued: damage, power cuts, several writers, readers beside them, folders that vanish."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from faults import ERRORS, Fault, FaultyDisk
from forked import Forked, Send, call_command
from power import WORLDS, restore
from soak_runs import (
    STEPS,
    Reference,
    check_fork,
    check_readers,
    judge,
    observed,
    words_of,
)
from tampering import KINDS, tamper
from trials import Trial, WrongError, check_end, run_commands

from twoclocks.store import files

Make = Callable[[Trial, Reference], str]


def at_times(signals: Sequence[str], most: int = 1) -> Make:
    """Signals at random times, in up to ``most`` attempts."""

    def make(trial: Trial, ref: Reference) -> str:
        path = trial.inside / "run"
        for _ in range(trial.generator.randint(1, most)):
            child = trial.command(*words_of(ref.spec, path))
            for name in signals:
                wait = trial.generator.uniform(0, ref.seconds if name != "SIGCONT" else 0.2)
                trial.note(f"{wait:.3f} s, then {name}")
                time.sleep(wait)
                child.signal(signal.Signals[name])
            ended = child.wait()
            allowed = {0, 4, 130, *(-signal.Signals[name] for name in signals if name not in ("SIGSTOP", "SIGCONT"))}
            check_end(ended, {0} if signals[-1] == "SIGCONT" and len(signals) == 2 else allowed)
        return judge(trial, ref, path)

    return make


def at_calls(kinds: Sequence[str], most: int, codes: set[int]) -> Make:
    """Faults at random disk calls, in up to ``most`` attempts."""

    def make(trial: Trial, ref: Reference) -> str:
        path = trial.inside / "run"
        for _ in range(trial.generator.randint(1, most)):
            fault = Fault(trial.generator.randint(1, ref.calls), trial.generator.choice(list(kinds)))
            trial.note(f"{fault.kind} at call {fault.at}")
            ended = trial.command(*words_of(ref.spec, path), fault=fault).wait()
            check_end(ended, codes)
        return judge(trial, ref, path)

    return make


def at_final_evaluation(trial: Trial, ref: Reference) -> str:
    """A signal while the last evaluation is computed; then the run goes on, or a fork of it."""
    path, name = trial.inside / "run", trial.generator.choice(["SIGTERM", "SIGINT", "SIGHUP"])
    step = trial.generator.choice([STEPS, STEPS, STEPS, 2])
    trial.note(f"{name} at the evaluation of step {step}")

    def stopped(send: Send) -> int:
        from twoclocks.runs.assembly import Experiment

        evaluate = Experiment.evaluate

        def disturbed(self: Any, at: int, loss: float) -> Any:
            if at == step:
                os.kill(os.getpid(), signal.Signals[name])
            return evaluate(self, at, loss)

        Experiment.evaluate = disturbed  # type: ignore[method-assign]
        return run_commands(send, [words_of(ref.spec, path)])

    check_end(trial.fork(stopped).wait(), {4})
    if trial.generator.random() < 0.5:
        trial.note("then --fork")
        check_fork(trial, ref, path)
    return judge(trial, ref, path)


def damage(kind: str) -> Make:
    """One to three files of a finished or an unfinished run are damaged."""

    def make(trial: Trial, ref: Reference) -> str:
        path, is_finished = trial.inside / "run", trial.generator.random() < 0.5
        source = ref.finished if is_finished else trial.generator.choice(ref.unfinished)
        shutil.copytree(source, path)
        others = [*(one for one in ref.unfinished if one != source), ref.finished.parent / "other"]
        for _ in range(trial.generator.choice([1, 1, 2, 3])):
            trial.note(f"{source.name}: {tamper(kind, path, trial.outside, others, trial.generator)}")
        trial.guard_outside()
        nobody, forged = kind == "unreadable file", kind == "document forged"
        outcome = judge(trial, ref, path, was_finished=is_finished, nobody=nobody, forged=forged)
        if kind == "file times changed" and outcome != "equal":
            raise WrongError("other file times are taken for damage")
        return outcome

    return make


def power_cut(trial: Trial, ref: Reference) -> str:
    """What is left of a run after a power cut at a random disk call."""
    number, world = trial.generator.randrange(len(ref.history)), trial.generator.choice(WORLDS)
    trial.note(f"after call {number}, {world}")
    source, path = (ref.finished.parent / "powered").absolute(), trial.inside / "run"
    left = {place: data for place, data in ref.history[number][world].items() if place.is_relative_to(source)}
    restore(left, source, path)
    return judge(trial, ref, path)


def paused(trial: Trial, ref: Reference, path: Path, at: int) -> Forked:
    """A run that stops itself (SIGSTOP) at its report of this number, between two writes."""

    def pause(send: Send) -> int:
        seen = 0

        def observe(progress: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                send({"name": "paused", "err": ""})
                os.kill(os.getpid(), signal.SIGSTOP)

        with observed(observe):
            return run_commands(send, [words_of(ref.spec, path)])

    child = trial.fork(pause)
    if not child.wait_for_message():
        raise WrongError(f"a run that was to be paused ended: {child.wait()}")
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)  # it said so just before it stops; a SIGCONT that comes too early would be lost
    return child


def replaced(how: str) -> Make:
    """The folder is removed or moved, or its lock is, while a run writes; a second run begins; the first wakes up."""

    def make(trial: Trial, ref: Reference) -> str:
        path, at = trial.inside / "run", trial.generator.randint(1, 3)
        first = paused(trial, ref, path, at)
        trial.note(f"{how} at report {at}")
        moved = trial.inside / "moved"
        if how == "rm -rf":
            shutil.rmtree(path)
        elif how == "mv":
            path.rename(moved)
        else:
            (path / "lock").unlink()
        again = trial.generator.random() < 0.8 or how != "rm -rf"
        fault = Fault(trial.generator.randint(1, ref.calls), "kill") if trial.generator.random() < 0.4 else None
        if again:
            trial.note(f"second writer, {fault}")
            check_end(trial.command(*words_of(ref.spec, path), fault=fault).wait(), {0, -9})
        first.signal(signal.SIGCONT)
        ended = check_end(first.wait(), {0, 2, 5})
        if ended.code == 0 and at < 3 and how != "rm lock":
            raise WrongError("a run whose folder is gone went on as if nothing had happened")
        if ended.code == 0 and not again and not path.exists():
            raise WrongError("a run whose folder is gone says that it is finished")
        if moved.exists():
            judge(trial, ref, moved)
        return judge(trial, ref, path)

    return make


def two_writers(trial: Trial, ref: Reference) -> str:
    """Two or three processes run the same command at once; one of them may be killed."""
    path = trial.inside / "run"
    children = [trial.command(*words_of(ref.spec, path)) for _ in range(trial.generator.randint(2, 3))]
    killed = trial.generator.random() < 0.4
    if killed:
        time.sleep(trial.generator.uniform(0, ref.seconds))
        children[0].signal(signal.SIGKILL)
    codes = [check_end(child.wait(), {0, 2, -9}).code for child in children]
    trial.note(f"exit codes {codes}")
    if not killed and 0 not in codes:
        raise WrongError(f"of several writers at once, none finished: {codes}")
    return judge(trial, ref, path)


def readers_beside(trial: Trial, ref: Reference) -> str:
    """Readers and verify while a run is written, and after it was killed."""
    path = trial.inside / "run"
    writer = trial.command(*words_of(ref.spec, path))

    def read(send: Send) -> None:
        until = time.monotonic() + 1.5 * ref.seconds
        while time.monotonic() < until:
            if (path / "manifest.json").exists():
                for words in (["verify", path, "--json"], ["clocks", path, "--json"]):
                    send(call_command(words))

    reader = trial.fork(read)
    if trial.generator.random() < 0.3:
        time.sleep(trial.generator.uniform(0, ref.seconds))
        writer.signal(signal.SIGKILL)
    check_end(writer.wait(), {0, -9})
    replies = check_end(reader.wait(), {0}).sent
    for verified, clocks in zip(replies[::2], replies[1::2], strict=True):
        if verified["code"] == 6:
            raise WrongError(f"verify calls a run damaged that is only being written: {verified['out'][:600]}")
        check_readers(ref, verified, clocks, {"code": 0}, was_finished=False)
    return judge(trial, ref, path)


def concurrent_forks(trial: Trial, ref: Reference) -> str:
    """Two or three forks of one run at once, one of them perhaps killed; then the same command again."""
    path, is_finished = trial.inside / "run", trial.generator.random() < 0.5
    shutil.copytree(ref.finished if is_finished else ref.unfinished[-1], path)
    words = words_of(ref.fork_spec, path, "--fork")
    faults = [None, None, None]
    if trial.generator.random() < 0.5:
        faults[0] = Fault(trial.generator.randint(1, 60), trial.generator.choice(["kill", "torn", "ENOSPC"]))
    count = trial.generator.randint(1 if faults[0] else 2, 3)
    trial.note(f"{count} forks of a run that is {'' if is_finished else 'un'}finished, {faults[0]}")
    children = [trial.command(*words, fault=fault) for fault in faults[:count]]
    codes = [check_end(child.wait(), {0, 2, 5, -9}).code for child in children]
    trial.note(f"exit codes {codes}")
    check_fork(trial, ref, path)
    return judge(trial, ref, path, was_finished=is_finished)


def suspended(trial: Trial, ref: Reference) -> str:
    """A writer is suspended; a second one is refused; the first goes on and finishes."""
    path = trial.inside / "run"
    first = paused(trial, ref, path, trial.generator.randint(1, 3))
    check_end(trial.command(*words_of(ref.spec, path)).wait(), {2})
    first.signal(signal.SIGCONT)
    check_end(first.wait(), {0})
    return judge(trial, ref, path)


def full_while_stopped(trial: Trial, ref: Reference) -> str:
    """SIGTERM while the disk is full: one line that names the last good checkpoint, exit code 5 or 4."""
    path, at = trial.inside / "run", trial.generator.randint(20, ref.calls)
    trial.note(f"ENOSPC from call {at}, and SIGTERM")

    class FullDisk(FaultyDisk):
        def meet(self, name: str, half: Any = None) -> None:
            if self.calls + 1 == at:
                os.kill(os.getpid(), signal.SIGTERM)
            super().meet(name, half)

    def stop(send: Send) -> int:
        files.disk = FullDisk(Fault(at, "ENOSPC"))
        reply = call_command(words_of(ref.spec, path))
        send(reply)
        return int(reply["code"])

    ended = check_end(trial.fork(stop).wait(), {4, 5})
    said, stored = ended.sent[-1]["err"], any((path / "checkpoints").glob("*.json"))
    if stored and "checkpoint" not in said:
        raise WrongError(f"a full disk, and no word about the last checkpoint: {said}")
    return judge(trial, ref, path)


SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")

RUN_FAULTS: dict[str, tuple[float, Make]] = {  # with weights
    "kill -9 at random times": (4, at_times(["SIGKILL"], most=3)),
    "kill -9 at disk calls": (4, at_calls(["kill", "torn"], most=3, codes={0, -9})),
    **{f"{kind} at a disk call": (1, at_calls([kind], most=2, codes={0, 5})) for kind in ERRORS},
    **{f"{name} at a random time": (1, at_times([name])) for name in SIGNALS},
    **{f"{name} at a disk call": (1, at_calls([name], most=2, codes={0, 4})) for name in SIGNALS},
    "two signals in a row": (1, at_times(["SIGTERM", "SIGINT"])),
    "SIGSTOP, then SIGCONT": (1, at_times(["SIGSTOP", "SIGCONT"])),
    "SIGSTOP, SIGTERM, SIGCONT": (1, at_times(["SIGSTOP", "SIGTERM", "SIGCONT"])),
    "signal during an evaluation": (2, at_final_evaluation),
    "SIGTERM on a full disk": (1, full_while_stopped),
    "power cut": (4, power_cut),
    **{kind: (2, damage(kind)) for kind in KINDS},
    "rm -rf under a writer": (2, replaced("rm -rf")),
    "mv under a writer": (2, replaced("mv")),
    "rm lock under a writer": (2, replaced("rm lock")),
    "writer suspended, second writer": (1, suspended),
    "several writers at once": (2, two_writers),
    "readers beside a writer": (2, readers_beside),
    "several forks at once": (2, concurrent_forks),
}
