"""An interrupted run is the same run; a directory is written by one process, with one set of settings."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from torch.optim.optimizer import register_optimizer_step_post_hook
from warm import WarmCommand

from twoclocks.cli import main
from twoclocks.core.config import flat, to_mapping
from twoclocks.core.errors import UserError
from twoclocks.core.exit_codes import EXIT_DAMAGED, EXIT_DISK, EXIT_STOPPED
from twoclocks.runs import Experiment, Progress, Run, RunSettings, load_run, run
from twoclocks.runs.execution import OutOfMemoryError, named_memory_errors
from twoclocks.store import files, verify_tree
from twoclocks.store.files import digest
from twoclocks.store.lock import LockedError
from twoclocks.training.stopping import StoppedError, StopRequest


def contents(path: Path) -> dict[str, str]:
    """SHA-256 of all that must be equal: last weights, optimizer and stream, rows, samples."""
    names = ["metrics.jsonl", "checkpoints/step-000000060.safetensors"]
    names += [f"samples/{file.name}" for file in sorted((path / "samples").iterdir())]
    return {name: digest((path / name).read_bytes()) for name in names}


def stopping_at(step: int, by: BaseException | type[BaseException] = KeyboardInterrupt):  # type: ignore[no-untyped-def]
    def observe(progress: Progress) -> None:
        if progress.step >= step:
            raise by

    return observe


@pytest.mark.parametrize(
    ("name", "seconds"),
    [*product(["tiny_dit", "tiny_averaged", "tiny_unet"], [0.0, 30.0]), ("tiny_images", 0.0)],
)
def test_a_run_in_many_sittings_is_the_same_run(
    name: str, seconds: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    whole: Run = request.getfixturevalue(name)
    for step in (0, 5, 20, 21, 50):
        with pytest.raises(KeyboardInterrupt):
            run(whole.settings, tmp_path / "run", stopping_at(step), checkpoint_seconds=seconds)
    done = run(whole.settings, tmp_path / "run")
    assert contents(done.path) == contents(whole.path) and done.clocks() == whole.clocks()
    assert len(done.status["attempts"]) == 6 and done.status["attempts"][0]["from_step"] == 0
    assert (done.status["attempts"][5]["from_step"] > 0) == (seconds == 0)
    assert done.timings()["step"].tolist() == done.metrics()["step"].tolist()
    assert (np.diff(done.timings()["seconds"]) > 0).all()  # over all attempts


def test_a_signal_between_evaluations_keeps_the_sum_of_losses(tmp_path: Path, tiny_gpt: Run) -> None:
    """Stopped at every one of the first steps, so that the mean loss of a row is summed over several attempts."""
    for step in range(1, 8):
        with pytest.raises(StoppedError) as caught:
            one_step(tiny_gpt.settings, tmp_path / "run")
        assert caught.value.step == step and caught.value.by == "SIGTERM"
    done = run(tiny_gpt.settings, tmp_path / "run")
    assert contents(done.path) == contents(tiny_gpt.path)
    assert [attempt["from_step"] for attempt in done.status["attempts"]] == list(range(8))


def one_step(settings: RunSettings, out: Path) -> None:
    """A real signal, sent in the middle of the first update."""
    handle = register_optimizer_step_post_hook(lambda *about: os.kill(os.getpid(), signal.SIGTERM))
    try:
        run(settings, out)
    finally:
        handle.remove()


def hear_all() -> None:
    """Tests that run in the background of a shell may have inherited that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start_run(words: list[str], fresh: bool, stderr: int) -> subprocess.Popen[str] | WarmCommand:
    """The command in a fresh process, or in a warm one."""
    if not fresh:
        return WarmCommand(["run", *words], stderr=stderr)
    command = [sys.executable, "-m", "twoclocks", "run", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_commits_a_checkpoint_within_ten_seconds_and_the_command_continues(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The evaluations are made so long that the signal must leave one in the middle."""
    hear_all()
    change = {"training.steps": 3, "evaluation.steps": "[0, 3]", "evaluation.samples": 400_000, "clocks.sustain": 1}
    words = [word for key, value in change.items() for word in (f"--{key}", str(value))]
    process = start_run(["demo-gpt", "--out", str(tmp_path / "run"), *words], number == signal.SIGINT, subprocess.PIPE)
    while not (tmp_path / "run" / "checkpoints" / "step-000000000.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(number)
    _, said = process.communicate(timeout=10)
    assert process.returncode == EXIT_STOPPED and time.monotonic() - begin < 10
    assert f"stopped by {number.name} at step 0" in said and "the same command continues" in said
    stopped = load_run(tmp_path / "run")
    assert stopped.status["status"] == "interrupted" and verify_tree(tmp_path)[0].intact


def test_a_second_signal_is_not_held_back() -> None:
    hear_all()
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.by == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("where", ["dry_run", "load_state", "state"])
def test_a_signal_is_heard_while_a_run_starts_or_stores(
    tmp_path: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """In preparation, while it resumes, and during any checkpoint: an exit of its own, and the run goes on later."""
    with pytest.raises(KeyboardInterrupt):
        run(tiny_gpt.settings, tmp_path / "run", stopping_at(20), checkpoint_seconds=0)
    original = getattr(Experiment, where)

    def signalled(self: Experiment, *arguments: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, where, signalled)
        with pytest.raises(StoppedError):
            run(tiny_gpt.settings, tmp_path / "run", checkpoint_seconds=1000)
    assert not (tmp_path / "run" / "lock").exists()
    done = run(tiny_gpt.settings, tmp_path / "run")
    assert contents(done.path) == contents(tiny_gpt.path)


@pytest.mark.parametrize("channel", ["/dev/full", "closed pipe"])
def test_nobody_listening_is_no_reason_to_stop(tmp_path: Path, channel: str) -> None:
    words = ["--training.steps=20", "--evaluation.first=5", "--evaluation.evaluations=4", "--training.threads=1"]
    if channel == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(channel, os.O_WRONLY)
    process = start_run(["demo-gpt", "--out", str(tmp_path / "run"), *words], channel == "closed pipe", writing)
    assert process.wait() == 0 and load_run(tmp_path / "run").status["status"] == "finished"


def test_the_lock_is_looked_at_before_every_row_and_checkpoint(tmp_path: Path, tiny_gpt: Run) -> None:
    """A process that slept while another machine took over writes nothing more, not even its status."""
    for before_the_row in (True, False):
        out = tmp_path / str(before_the_row)

        def lose(progress: Progress, out: Path = out, before_the_row: bool = before_the_row) -> None:
            if progress.step == 20 and progress.evaluated != before_the_row:
                (out / "lock").write_text('{"process": 5, "host": "elsewhere", "token": "x"}')

        with pytest.raises(LockedError, match="took it over"):
            run(tiny_gpt.settings, out, lose, checkpoint_seconds=0)
        left = load_run(out)
        assert left.metrics()["step"].tolist() == ([0, 5] if before_the_row else [0, 5, 20])
        assert left.directory.checkpoint_steps() == [18, 19] and left.status["status"] == "running"


def test_a_signal_that_was_to_be_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
            assert stop.by is None
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_finished_run_is_left_alone(tmp_path: Path, tiny_gpt: Run, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in tmp_path.rglob("*") if file.is_file()}
    with caplog.at_level(logging.INFO, "twoclocks"):
        renamed = replace(tiny_gpt.settings, name="another", description="labels do not make another run")
        assert run(renamed, tmp_path / "run").clocks() == tiny_gpt.clocks()
    assert "is finished; nothing to do" in caplog.text
    assert before == {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in tmp_path.rglob("*") if f.is_file()}


def changed(settings: RunSettings, section: str, **values: object) -> RunSettings:
    return replace(settings, **{section: replace(getattr(settings, section), **values)})


def of_steps(settings: RunSettings, *schedule: int) -> RunSettings:
    training, evaluation = settings.training, settings.evaluation
    return replace(
        settings, training=replace(training, steps=schedule[-1]), evaluation=replace(evaluation, steps=schedule)
    )


def test_other_settings_are_named_and_refused(tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    other = changed(changed(tiny_gpt.settings, "training", learning_rate=1e-4), "data", seed=3)
    with pytest.raises(UserError) as caught:
        run(other, tmp_path / "run")
    for words in ("training.learning_rate is 0.003 there and 0.0001 here", "data.seed is 0 there and 3 here", "--fork"):
        assert words in str(caught.value)
    assert "batch" not in str(caught.value) and contents(tmp_path / "run") == contents(tiny_gpt.path)


@pytest.mark.parametrize("name", ["tiny_gpt", "tiny_averaged"])
def test_a_fork_goes_on_beside_the_original_as_if_it_had_always_been_so(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    whole: Run = request.getfixturevalue(name)
    shutil.copytree(whole.path, tmp_path / "run")
    longer = of_steps(whole.settings, 0, 5, 20, 40, 60, 80)
    direct = run(longer, tmp_path / "direct")
    fork = run(longer, tmp_path / "run", fork=True)
    assert fork.path != tmp_path / "run" and fork.path.parent == tmp_path and fork.path.name.startswith("run-fork-")
    last = "checkpoints/step-000000080.safetensors"
    for name in ("metrics.jsonl", last, "samples/step-000000005.safetensors"):
        assert (fork.path / name).read_bytes() == (direct.path / name).read_bytes()
    assert fork.manifest["forked_from"]["step"] == 60 and contents(tmp_path / "run") == contents(whole.path)
    assert all(findings.intact for findings in verify_tree(tmp_path))
    assert run(longer, tmp_path / "run", fork=True).path == fork.path  # found again, finished
    with pytest.raises(UserError, match="leaves nothing to train"):
        run(of_steps(longer, 0, 50), tmp_path / "direct", fork=True)
    with pytest.raises(UserError, match="leaves nothing to train"):  # else it would pass for a run with this rate
        run(changed(longer, "training", learning_rate=1e-4), tmp_path / "direct", fork=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["direct", "run", fork.path.name]


def test_a_fork_keeps_what_its_weights_and_rows_mean(tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    for section, field, value in (("model", "width", 32), ("data", "n", 3), ("evaluation", "samples", 200)):
        with pytest.raises(UserError, match=rf"--fork: .*{section}\.{field}"):
            run(changed(tiny_gpt.settings, section, **{field: value}), tmp_path / "run", fork=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("victim", ["safetensors", "json", "both", "all"])
def test_a_damaged_checkpoint_is_passed_over_with_a_line(
    tmp_path: Path, tiny_gpt: Run, victim: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tiny_gpt.settings, tmp_path / "run", stopping_at(40), checkpoint_seconds=0)
    steps = load_run(tmp_path / "run").directory.checkpoint_steps()
    assert steps == [38, 39]
    for step in steps if victim == "all" else steps[1:]:
        for suffix in ("safetensors", "json") if victim in ("both", "all") else (victim,):
            path = tmp_path / "run" / "checkpoints" / f"step-{step:09d}.{suffix}"
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 4
            path.write_bytes(data)
    assert not verify_tree(tmp_path / "run")[0].intact
    done = run(tiny_gpt.settings, tmp_path / "run")
    assert "is damaged" in caplog.text and "it is not used, the one before it is" in caplog.text
    assert done.status["attempts"][-1]["from_step"] == (0 if victim == "all" else 38)
    assert ("starts again at step 0" in caplog.text) == (victim == "all")
    assert contents(done.path) == contents(tiny_gpt.path) and verify_tree(done.path)[0].intact


def test_rows_damaged_below_a_checkpoint_are_computed_anew(
    tmp_path: Path, tiny_gpt: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tiny_gpt.settings, tmp_path / "run", stopping_at(40), checkpoint_seconds=0)
    path = tmp_path / "run" / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[1].replace(b"0", b"1", 1), *lines[2:]]))
    with pytest.raises(UserError, match="line 2 is damaged"):
        load_run(tmp_path / "run").clocks()
    done = run(tiny_gpt.settings, tmp_path / "run")
    assert "computed again" in caplog.text and contents(done.path) == contents(tiny_gpt.path)


def test_links_are_refused(tmp_path: Path, tiny_gpt: Run) -> None:
    shutil.copytree(tiny_gpt.path, tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for call in (load_run, lambda path: run(tiny_gpt.settings, path), verify_tree):
        with pytest.raises(UserError, match="symbolic link"):
            call(tmp_path / "link")
    shutil.move(tmp_path / "run" / "samples", tmp_path / "elsewhere")
    (tmp_path / "run" / "samples").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="symbolic link"):
        run(of_steps(tiny_gpt.settings, 0, 61), tmp_path / "run")
    (tmp_path / "run" / "samples").unlink()
    shutil.move(tmp_path / "elsewhere", tmp_path / "run" / "samples")
    shutil.move(tmp_path / "run" / "metrics.jsonl", tmp_path / "metrics.jsonl")
    (tmp_path / "run" / "metrics.jsonl").symlink_to(tmp_path / "metrics.jsonl")
    with pytest.raises(UserError, match="must not contain symbolic links"):
        load_run(tmp_path / "run").clocks()


def test_space_is_estimated_before_anything_is_written(
    tmp_path: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    stored = sum(file.stat().st_size for file in tiny_gpt.path.rglob("*") if file.is_file())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, stored))
    with pytest.raises(UserError, match="disk has 0 MB left; free some space"):
        run(tiny_gpt.settings, tmp_path / "deep" / "run")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 10 * stored))
    run(tiny_gpt.settings, tmp_path / "deep" / "run")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_verify_and_disk_errors_have_their_own_exit_codes(
    number: int, work: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_gpt.path, work / "tree" / "one")
    assert main(["verify", "tree"]) == 0
    assert "finished" in capsys.readouterr().out
    sample = next((work / "tree" / "one" / "samples").iterdir())
    sample.write_bytes(sample.read_bytes()[:-1])
    assert main(["verify", "tree", "--json"]) == EXIT_DAMAGED
    assert f"samples/{sample.name}: is damaged" in capsys.readouterr().out
    assert main(["verify", "nowhere"]) == 2 and main(["verify", str(work / "tree" / "one" / "samples")]) == 2
    capsys.readouterr()

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.disk, "write", full)
    words = [f"--{key}={value}" for key, value in flat(to_mapping(tiny_gpt.settings)).items() if value is not None]
    assert main(["run", *words, "--out", "full"]) == EXIT_DISK
    printed = capsys.readouterr().err.strip()
    assert f"{os.strerror(number)}; {files.FIXES[number]}" in printed and len(printed.split("\n")) == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
    ],
)
def test_memory_errors_are_told_from_others(error: Exception) -> None:
    with pytest.raises(OutOfMemoryError, match=r"training\.batch"), named_memory_errors():
        raise error
    with pytest.raises(RuntimeError, match="other"), named_memory_errors():
        raise RuntimeError("other")


def test_two_that_begin_in_one_folder_at_once_do_not_mix(
    tmp_path: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins, with other settings, while this one still prepares."""
    other, dry_run = changed(tiny_gpt.settings, "training", seed=7), Experiment.dry_run

    def slowly(self: Experiment) -> None:
        dry_run(self)
        if self.settings != other:
            run(other, tmp_path / "run")

    monkeypatch.setattr(Experiment, "dry_run", slowly)
    with pytest.raises(UserError, match=r"training\.seed is 7 there and 0 here"):
        run(tiny_gpt.settings, tmp_path / "run")
    assert load_run(tmp_path / "run").settings == other and verify_tree(tmp_path)[0].intact


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path, tiny_gpt: Run) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tiny_gpt.settings, tmp_path / "run", stopping_at(20), checkpoint_seconds=0)
    directory = load_run(tmp_path / "run").directory
    found = directory.read_checkpoint()
    few = {name: tensor for name, tensor in found.tensors.items() if "head" not in name}
    directory.checkpoints.write(found.step, few, found.link)
    with pytest.raises(UserError, match="does not fit this network"):
        run(tiny_gpt.settings, tmp_path / "run")
