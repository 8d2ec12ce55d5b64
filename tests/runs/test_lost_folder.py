"""A run whose folder is moved, removed or replaced while it trains writes nothing more, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from warm import WarmCommand

from twoclocks.core.exit_codes import EXIT_DISK
from twoclocks.runs import Progress, Run, run
from twoclocks.store import verify_tree
from twoclocks.store.files import digest
from twoclocks.store.lock import LostLockError


def contents(path: Path) -> dict[str, str]:
    """SHA-256 of rows, samples and the last checkpoint."""
    names = ["metrics.jsonl", *(f"checkpoints/step-000000060.{end}" for end in ("json", "safetensors"))]
    names += [f"samples/{file.name}" for file in sorted((path / "samples").iterdir())]
    return {name: digest((path / name).read_bytes()) for name in names}


def move(out: Path) -> None:
    out.rename(out.with_name("moved"))


def replace(out: Path) -> None:
    shutil.copytree(out, out.with_name("copy"))
    move(out)
    out.with_name("copy").rename(out)


EVENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "removed": (shutil.rmtree, "was moved or removed while this process wrote to it"),
    "moved": (move, "was moved or removed while this process wrote to it"),
    "replaced": (replace, "was replaced, or its lock was removed"),
    "lock removed": (lambda out: (out / "lock").unlink(), "its lock was removed while this process wrote to it"),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("evaluated", [True, False])
def test_a_writer_stops_when_its_folder_is_gone(event: str, evaluated: bool, tmp_path: Path, tiny_gpt: Run) -> None:
    out, moved = tmp_path / "run", tmp_path / "moved"
    happen, words = EVENTS[event]
    then: dict[Path, bytes] = {}

    def observe(progress: Progress) -> None:
        if progress.step == 40 and progress.evaluated == evaluated:
            happen(out)
            then.update({path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()})

    with pytest.raises(LostLockError, match=words):
        run(tiny_gpt.settings, out, observe, checkpoint_seconds=0)
    now = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert now == then, "nothing was written or removed afterwards"
    for left in {path for path in (out, moved) if path.exists()} | {out}:
        assert contents(run(tiny_gpt.settings, left).path) == contents(tiny_gpt.path)
    assert all(found.intact for found in verify_tree(tmp_path))


def test_a_second_writer_that_came_in_is_left_alone(tmp_path: Path, tiny_gpt: Run) -> None:
    """The lock is removed and another process finishes the run; the first one, far ahead, must not touch it."""
    out = tmp_path / "run"

    def observe(progress: Progress) -> None:
        if progress.step == 50:
            (out / "lock").unlink()
            run(tiny_gpt.settings, out)

    with pytest.raises(LostLockError):
        run(tiny_gpt.settings, out, observe, checkpoint_seconds=0)
    assert contents(out) == contents(tiny_gpt.path) and verify_tree(out)[0].intact
    assert not (out / "lock").exists()


def test_the_command_says_it_in_one_line_with_its_own_exit_code(tmp_path: Path) -> None:
    words = ["run", "demo-gpt", "--out", str(tmp_path / "run"), "--training.steps", "100000"]
    process = WarmCommand([*words, "--checkpoint-seconds", "0"], stderr=subprocess.PIPE)
    while not (tmp_path / "run" / "checkpoints" / "step-000000001.json").exists():
        assert process.poll() is None
        time.sleep(0.02)
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    _, said = process.communicate(timeout=20)
    assert process.returncode == EXIT_DISK
    assert [line for line in said.splitlines() if line.startswith("twoclocks: ")][-1].count("removed") == 1
    assert "Traceback" not in said and not (tmp_path / "run").exists()
