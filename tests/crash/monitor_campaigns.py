"""Campaigns against the monitor: odd calls, and every flipped bit of a stored state."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from campaigns import Tally
from odd_calls import calls, good
from odd_values import BITS

import twoclocks as tc
from twoclocks.core.errors import UserError
from twoclocks.store.checksums import encode_document

SECONDS = 20  # longer is a hang
ARGUMENTS = """above batch below clocks copies cosine_above decision decode floats function gallery generate groups
held_out held_out_loss look most name next_rows padding path policy prefix report rule run_lengths samples settings
split state step symmetries tokens train train_loss valid""".split()  # noqa: SIM905
MESSAGE = re.compile(rf"({'|'.join(ARGUMENTS)}|/[^\n]*)\b[^\n]*[;:][^\n]+")


class HangError(Exception):
    """A call took too long."""


def outcome(call: Callable[[], Any]) -> str:
    """``equal`` if the call works, ``detected`` if it is refused in one clear line, else what went wrong."""

    def hang(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        call()
        return "equal"
    except UserError as error:
        return "detected" if MESSAGE.fullmatch(str(error)) and len(str(error)) < 700 else f"unclear: {str(error)[:300]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def odd_monitor_calls(folder: Path, count: int | None = None, seed: int = 0) -> Tally:
    """Odd calls of the monitor, all or ``count`` of them; each works, or says in one line what to change."""
    logging.getLogger("twoclocks").setLevel(logging.ERROR)
    every = list(calls(folder))
    chosen = every if count is None else random.Random(seed).sample(every, min(count, len(every)))
    tally = Tally("odd call of the monitor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in chosen:
            found = outcome(call)
            tally.tried += 1
            tally.equal += found == "equal"
            tally.detected += found == "detected"
            tally.wrong += found not in ("equal", "detected")
            if found not in ("equal", "detected"):
                logging.getLogger("twoclocks").error(f"{name}: {found}")
    return tally


def monitor_state_flips(folder: Path) -> Tally:
    """Every bit of a stored state flipped, and every shorter form of it: refused, or read as the same numbers."""
    monitor = good("bits")
    monitor.observe(1, BITS[:3])
    path = folder / "state.json"
    monitor.save(path)
    data, expected = path.read_bytes(), monitor.state()
    flipped = (data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at in range(len(data)) for bit in range(8))
    tally = Tally("bit of a monitor's state flipped, or its end lost")
    again = tc.Monitor(BITS)
    descriptor = os.open(path, os.O_WRONLY)  # one open file: to truncate and fill it again may wait for the disk
    for damaged in (*flipped, *(data[:end] for end in range(len(data) - 1, -1, -1))):
        os.pwrite(descriptor, damaged, 0)
        if len(damaged) < len(data):
            os.ftruncate(descriptor, len(damaged))
        tally.tried += 1
        try:
            again.load(path)
            same = again.state() == expected
            tally.equal += same
            tally.wrong += not same
            again = tc.Monitor(BITS)
        except UserError:
            tally.detected += again.last_step is None  # and nothing of it was kept
            tally.wrong += again.last_step is not None
    os.close(descriptor)
    return tally


def forged_states() -> Iterator[tuple[str, Any]]:
    """Documents that are no state of this monitor, or one with a wrong value; with valid checksums where stored."""
    state = good("bits").state()

    def changed(*keys: Any, to: Any) -> Any:
        whole = json.loads(json.dumps(state))
        place = whole
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to
        return whole

    odd = [None, -1, 0.5, 2**70, 10**400, math.inf, "x", "", [], {}, [[]], {"a": 1}, True, "\x1b[31m", [1, 2], "0" * 64]
    for number, value in enumerate(odd):
        for key in state["about"]:
            yield f"about.{key} {number}", changed("about", key, to=value)
        for key in state["looks"][0]:
            yield f"look.{key} {number}", changed("looks", 0, key, to=value)
        for key in state:
            yield f"{key} {number}", changed(key, to=value)
        for key in state["about"]["settings"]:
            yield f"settings.{key} {number}", changed("about", "settings", key, to=value)
    for section, keys in (("about", list(state["about"])), ("looks", list(state["looks"][0]))):
        for key in keys:
            whole = json.loads(json.dumps(state))
            del (whole["about"] if section == "about" else whole["looks"][0])[key]
            yield f"without {key}", whole
    yield "more", changed("about", "more", to=1)
    yield "another version", changed("format", to=99)
    yield "the looks twice", changed("looks", to=[*state["looks"], *state["looks"]])
    yield "another training set", tc.Monitor(BITS[:3]).state()
    yield "a manifest", {"settings": {}, "origin": "x", "metrics": []}
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    yield "deep", deep
    yield "deep looks", changed("looks", to=[deep])


def forged_monitor_states(folder: Path) -> Tally:
    """Documents with valid checksums that are not this monitor's state, given to ``load`` and to ``load_state``."""
    tally, path = Tally("forged state of a monitor"), folder / "forged.json"
    for name, state in forged_states():
        stored = True
        try:
            path.write_bytes(encode_document(state))
        except (TypeError, ValueError, RecursionError):
            stored = False
        loads = [lambda m, s=state: m.load_state(s), *([lambda m: m.load(path)] if stored else [])]
        for load in loads:
            monitor = tc.Monitor(BITS)
            found = outcome(lambda m=monitor, load=load: (load(m), m.state(), m._record.looks and m.decision()))
            tally.tried += 1
            tally.equal += found == "equal"
            tally.detected += found == "detected"
            tally.wrong += found not in ("equal", "detected")
            if found not in ("equal", "detected"):
                logging.getLogger("twoclocks").error(f"{name}: {found}")
    return tally
