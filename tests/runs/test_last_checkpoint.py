"""The last checkpoint belongs to the last row, also where a signal came during the last evaluation."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from faults_on_disk import FullDisk
from test_lost_folder import contents

from twoclocks.cli import main
from twoclocks.core.config import to_mapping
from twoclocks.core.exit_codes import EXIT_DISK
from twoclocks.runs import Experiment, Run, RunSettings, load_run, load_settings, run
from twoclocks.store import files, verify_tree
from twoclocks.store.lock import LockedError, WriterLock
from twoclocks.training.stopping import StoppedError


def stop_in_evaluation(at: int, monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGTERM) -> None:
    """A signal in the middle of the evaluation of a step, once."""
    evaluate = Experiment.evaluate

    def interrupted(self: Experiment, step: int, loss: float):  # type: ignore[no-untyped-def]
        if step == at:
            monkeypatch.setattr(Experiment, "evaluate", evaluate)
            os.kill(os.getpid(), number)
        return evaluate(self, step, loss)

    monkeypatch.setattr(Experiment, "evaluate", interrupted)


def longer(settings: RunSettings) -> RunSettings:
    """The same run with more steps, whose schedule does not contain the old last step."""
    schedule = {"training.steps": 80, "evaluation.steps": [0, 5, 20, 40, 70, 80]}
    return load_settings("demo-gpt", {**to_mapping(settings), **schedule})


def checkpoint_link(path: Path) -> str:
    return str(json.loads((path / "checkpoints" / "step-000000060.json").read_bytes())["link"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_last_evaluation_leaves_an_exact_checkpoint(
    number: int, tmp_path: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_in_evaluation(60, monkeypatch, number)
    before = signal.signal(number, signal.SIG_DFL)  # under nohup SIGHUP is ignored, and a run leaves that so
    try:
        with pytest.raises(StoppedError) as caught:
            run(tiny_gpt.settings, tmp_path / "run")
    finally:
        signal.signal(number, before)
    assert caught.value.step == 60 and caught.value.by == signal.Signals(number).name
    done = run(tiny_gpt.settings, tmp_path / "run")
    assert contents(done.path) == contents(tiny_gpt.path)
    assert checkpoint_link(done.path) == done.status["link"]


def test_a_fork_loses_no_row_even_where_an_earlier_version_stored_the_checkpoint(
    tmp_path: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a run is finished, intact, and its last checkpoint names the row before the last one."""
    expected = run(longer(tiny_gpt.settings), fork_source(tmp_path / "straight", tiny_gpt), fork=True)
    stop_in_evaluation(60, monkeypatch)
    with pytest.raises(StoppedError):
        run(tiny_gpt.settings, tmp_path / "run")
    monkeypatch.setattr("twoclocks.runs.session.Session.store_end", lambda self: None)
    old = run(tiny_gpt.settings, tmp_path / "run")
    assert checkpoint_link(old.path) != old.status["link"]
    monkeypatch.undo()
    forked = run(longer(tiny_gpt.settings), old.path, fork=True)
    assert forked.metrics()["step"].tolist() == [0, 5, 20, 40, 60, 70, 80]
    assert forked.rows() == expected.rows()


def fork_source(path: Path, original: Run) -> Path:
    return run(original.settings, path).path


def test_one_process_copies_at_a_time_and_leaves_nothing(tmp_path: Path, tiny_gpt: Run) -> None:
    source = fork_source(tmp_path / "run", tiny_gpt)
    new = longer(tiny_gpt.settings)
    with (
        WriterLock(tmp_path, name=f".run-fork-{new.key()[:8]}.partial-lock"),
        pytest.raises(LockedError, match="is writing to it"),
    ):
        run(new, source, fork=True)
    outcomes: list[object] = []

    def fork() -> None:
        try:
            outcomes.append(run(new, source, fork=True).path)
        except LockedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=fork) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [one for one in outcomes if isinstance(one, Path)]
    assert done and len(outcomes) == 3 and set(done) == {done[0]}
    assert {path.name for path in tmp_path.iterdir()} == {"run", done[0].name}
    assert all(found.intact for found in verify_tree(tmp_path)) and len(load_run(done[0]).rows()) == 7


def test_a_copy_that_was_interrupted_is_named_and_made_again(tmp_path: Path, tiny_gpt: Run) -> None:
    source = fork_source(tmp_path / "run", tiny_gpt)
    new = longer(tiny_gpt.settings)
    left = tmp_path / f".run-fork-{new.key()[:8]}.partial"
    (left / "samples").mkdir(parents=True)
    (left / "metrics.jsonl").write_text("{")
    found = {one.path: one for one in verify_tree(tmp_path)}
    assert found[left].intact and "is an incomplete copy" in found[left].harmless[0]
    run(new, source, fork=True)
    assert not left.exists() and len(verify_tree(tmp_path)) == 2


def test_a_signal_on_a_full_disk_names_the_last_checkpoint(
    tmp_path: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_in_evaluation(40, monkeypatch)
    monkeypatch.setattr(files, "disk", FullDisk(after="samples/.step-000000020"))
    words = ["--training.steps", "60", "--evaluation.steps", "[0, 5, 20, 40, 60]", "--data.n", "8"]
    code = main(["run", "demo-gpt", "--out", str(tmp_path / "run"), "--checkpoint-seconds", "0", *words])
    said = capsys.readouterr().err
    assert code == EXIT_DISK and "the last good checkpoint is that of step" in said, said
