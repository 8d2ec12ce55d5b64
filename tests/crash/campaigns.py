"""Campaigns of kills, damage and disk errors against real runs; each counts what it tried and what came of it."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from faults import ERRORS, Fault
from subjects import fingerprint, settings, start, train

from twoclocks.core.errors import UserError
from twoclocks.runs import RunSettings, load_run
from twoclocks.store.files import DiskError
from twoclocks.store.verify import verify_run

PAGE = 4096


@dataclass
class Tally:
    """Of so many tries, how many were noticed, how many did no harm, and how many went wrong unseen."""

    campaign: str
    tried: int = 0
    equal: int = 0  # the run ended with the same bytes as one that nothing happened to
    detected: int = 0  # damage was named and nothing damaged was used
    wrong: int = 0

    @property
    def good(self) -> bool:
        """Something was tried, and every try came out well."""
        return self.tried > 0 and self.wrong == 0 and self.equal + self.detected >= self.tried


def reference(chosen: RunSettings, folder: Path) -> dict[str, object]:
    """What the run gives when nothing happens to it."""
    path = folder / f"reference-{chosen.key()}"
    if not path.exists():
        train(chosen, path)
    return fingerprint(path)


def same_in_the_end(chosen: RunSettings, path: Path, expected: dict[str, object]) -> bool:
    """The run is started once more, undisturbed, and must end as if it had never been stopped, with all intact."""
    train(chosen, path)
    return fingerprint(path) == expected and verify_run(path).intact


def kills_at_boundaries(folder: Path, every: int = 1, in_a_row: int = 1) -> Tally:
    """kill -9 before every call that changes the disk, and in the middle of every write."""
    chosen = settings()
    expected = reference(chosen, folder)
    counted = train(chosen, folder / f"counted-{in_a_row}")
    tally = Tally("kill at a disk call" if in_a_row == 1 else f"{in_a_row} kills in a row, each at a disk call")
    generator = random.Random(in_a_row)
    for at in range(1, counted.calls + 1, every):
        kinds = ["kill", "torn"] if counted.names[at - 1] == "write" else ["kill"]
        for kind in kinds:
            path = folder / f"{kind}-{in_a_row}-{at}"
            died = 0
            for number in range(in_a_row):
                place = at if number == 0 else generator.randrange(1, counted.calls)
                child = start(chosen, path, Fault(place, kind))
                child.join()
                died += child.exitcode == -9
            tally.tried += max(died, 1)
            good = died > 0 and same_in_the_end(chosen, path, expected)
            tally.equal += max(died, 1) if good else 0
            tally.wrong += not good
            shutil.rmtree(path)
    return tally


def kills_at_random(folder: Path, kills: int, seed: int = 0) -> Tally:
    """kill -9 at random times, up to three times per run, for both kinds of model."""
    generator = random.Random(seed)
    tally = Tally("kill at a random time of a run")
    subjects = [settings("demo-gpt", steps=16), settings("demo", steps=12)]
    expected = [reference(chosen, folder) for chosen in subjects]
    longest = [timed(chosen, folder / f"timed-{number}") for number, chosen in enumerate(subjects)]
    trial = 0
    while tally.tried < kills:
        which, trial = trial % 2, trial + 1
        path, died = folder / f"random-{trial}", 0
        for _ in range(3):
            child = start(subjects[which], path)
            time.sleep(generator.uniform(0, longest[which]))
            child.kill()
            child.join()
            died += child.exitcode == -9
        good = same_in_the_end(subjects[which], path, expected[which])
        tally.tried += died
        tally.equal += died if good else 0
        tally.wrong += not good
        shutil.rmtree(path)
    return tally


def timed(chosen: RunSettings, path: Path) -> float:
    """Seconds that the run takes in a process of its own, its start included."""
    start(chosen, path.with_name(path.name + "-warm")).join()
    begin = time.perf_counter()
    start(chosen, path).join()
    return time.perf_counter() - begin


Damage = Callable[[Path, random.Random], None]


def flip_a_bit(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, generator: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: generator.randrange(len(data))])


def zero_a_page(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    begin = PAGE * generator.randrange((len(data) + PAGE - 1) // PAGE)
    end = min(begin + PAGE, len(data))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)


def delete(path: Path, generator: random.Random) -> None:
    path.unlink()


DAMAGES: dict[str, Damage] = {
    "bit flipped": flip_a_bit,
    "file truncated": truncate,
    "page zeroed": zero_a_page,
    "file deleted": delete,
}


def damaged(folder: Path, kind: str, count: int, seed: int = 0) -> Tally:
    """Damage to a random file of a finished run, which is then read, or of an unfinished one, which goes on."""
    generator = random.Random(f"{kind}/{seed}")
    chosen = settings(steps=6)
    expected = reference(chosen, folder)
    finished, unfinished = folder / f"reference-{chosen.key()}", folder / "unfinished"
    if not unfinished.exists():
        start(chosen, unfinished, Fault(at_of_step(chosen, folder, step=4), "kill")).join()
    tally = Tally(kind)
    for number in range(count):
        path = folder / f"damaged-{number}"
        whole = finished if number % 2 else unfinished
        shutil.copytree(whole, path)
        victim = generator.choice(sorted(p for p in path.rglob("*") if p.is_file() and p.stat().st_size))
        before = victim.read_bytes()
        DAMAGES[kind](victim, generator)
        changed = not victim.exists() or victim.read_bytes() != before
        noticed = not verify_run(path).intact
        found = read_back(chosen, path)
        tally.tried += changed
        if found is None or (noticed and found.items() <= expected.items()):  # refused, or what is left is right
            tally.detected += changed
        elif found == expected:
            tally.equal += changed
        else:
            tally.wrong += 1
        shutil.rmtree(path)
    return tally


def at_of_step(chosen: RunSettings, folder: Path, step: int) -> int:
    """The disk call at which the checkpoint of a step is about to be committed, counted in an undisturbed run."""
    counted = train(chosen, folder / "at-of-step")
    renames = [place for place, name in enumerate(counted.names, start=1) if name == "rename"]
    # manifest, status, checkpoint 0 (2); then per step 2 for its checkpoint and, where evaluated, 1 for its samples
    return renames[4 + sum(2 + (done % 2 == 0) for done in range(step)) - 1]


def read_back(chosen: RunSettings, path: Path) -> dict[str, object] | None:
    """What a user of the directory would get: continued, if need be, and read; None where that is refused."""
    try:
        train(chosen, path)
        done = load_run(path)
        for step in done.directory.artifact_steps("samples"):
            done.directory.read_artifact("samples", step)
        done.directory.read_checkpoint()
        return fingerprint(path)
    except UserError:
        return None


def disk_errors(folder: Path, every: int = 1) -> Iterator[Tally]:
    """The disk refuses at each call: one clear line, what was good stays good, and the run can go on afterwards."""
    chosen = settings()
    expected = reference(chosen, folder)
    counted = train(chosen, folder / "counted-errors")
    for kind in ERRORS:
        tally, noted = Tally(f"{kind} at a disk call"), 0
        for at in range(1, counted.calls + 1, every):
            path = folder / f"{kind}-{at}"
            tally.tried += 1
            message = ""
            try:
                train(chosen, path, Fault(at, kind))
            except DiskError as error:
                message = str(error)
            clear = str(path) in message and message.count(";") >= 1
            noted += "the last good checkpoint is that of step" in message
            good = clear and same_in_the_end(chosen, path, expected)
            tally.equal += good
            tally.wrong += not good
            shutil.rmtree(path, ignore_errors=True)
        assert noted > tally.tried / 2, "once training goes on, the line names the last good checkpoint"
        yield tally
