"""Output that cannot be written: every command still stores its result, and exits with the right code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from broken_output import KINDS, broken_output

from twoclocks.cli import main
from twoclocks.core.output import GuardedStream
from twoclocks.runs import Run, load_run

FAST = [
    *("--training.steps", "4", "--training.batch", "4", "--evaluation.samples", "200", "--evaluation.first", "1"),
    *("--evaluation.evaluations", "3", "--evaluation.loss_rows", "8", "--model.width", "16", "--model.depth", "1"),
    *("--objective.sampler_steps", "3"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_stored_whatever_happens_to_its_output(
    kind: str, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["run", "demo", "--out", "run", *FAST], ["clocks", "run"]):
        with broken_output(kind, monkeypatch) as written:
            assert main(words) == KINDS[kind], words
        said = [line for line in capsys.readouterr().err.split("\n") if line.startswith("twoclocks: ")]
        assert len(said) == (kind == "full"), said
        if kind == "full":
            assert "standard output: No space left on device" in said[0]
        if kind in ("latin-1", "ascii"):
            text = written.getvalue().decode(kind)
            assert "tau_rule" in text and "\\u" not in text and (kind == "latin-1" or text.isascii())
        assert load_run(Path("run")).status["status"] == "finished"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("empty_figures")
def test_pages_are_written_whatever_happens_to_the_output(
    kind: str, work: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_gpt.path, work / "run")
    for command, page in (("report run", "run-report.html"), ("dissect run --views raster", "run-why.html")):
        with broken_output(kind, monkeypatch):
            assert main(command.split()) == KINDS[kind]
        assert (work / page).stat().st_size > 1000


@pytest.mark.parametrize("kind", ["full", "nobody reads"])
def test_the_exit_code_is_that_of_the_command(
    kind: str, work: Path, tiny_gpt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_gpt.path, work / "run")
    (work / "run" / "status.json").write_text("{}", encoding="utf-8")
    for words, code in ((["verify", "run"], 6), (["clocks", "nowhere"], 2)):
        with broken_output(kind, monkeypatch):
            assert main(words) == code
    with broken_output(kind, monkeypatch):
        if kind == "full":
            assert main(["--help"]) == 5
        else:
            with pytest.raises(SystemExit, match="0"):
                main(["--help"])


SHELL = {  # with the exit code, and what is on stderr
    "{} list presets >&-": (0, ""),
    "{} list presets >&- <&- 2>&-": (0, ""),
    "{} list presets | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}": (0, ""),
    "{} list presets >/dev/full": (5, "twoclocks: standard output: No space left on device"),
    "{} list presets --json >/dev/full": (5, "twoclocks: standard output: No space left on device"),
    "PYTHONIOENCODING=latin-1 {} list rules >/dev/null": (0, ""),
    "LC_ALL=C PYTHONUTF8=0 PYTHONIOENCODING=ascii {} list rules >/dev/null": (0, ""),
}


def test_output_in_a_real_shell() -> None:
    started = [
        subprocess.Popen(
            ["bash", "-c", command.format(f"{sys.executable} -m twoclocks")], stderr=subprocess.PIPE, text=True
        )
        for command in SHELL
    ]
    for process, (command, (code, words)) in zip(started, SHELL.items(), strict=True):
        _, said = process.communicate()
        assert process.returncode == code, (command, said)
        assert said.startswith(words) and said.count("\n") == bool(words), (command, said)


def test_closed_streams_do_not_give_their_numbers_to_files() -> None:
    code = (
        "import json, os, sys\n"
        "from twoclocks.core.output import guarded_output\n"
        "with guarded_output():\n"
        "    print('lost')\n"
        "    number = os.open(os.devnull, os.O_RDONLY)\n"
        "os.write(int(sys.argv[1]), json.dumps(number).encode())\n"
    )
    reading, writing = os.pipe()
    subprocess.run(
        ["bash", "-c", f'exec {sys.executable} -c "$0" {writing} <&- >&- 2>&-', code],
        pass_fds=[writing],
        check=True,
    )
    os.close(writing)
    assert json.loads(os.read(reading, 100)) > 2
    os.close(reading)


def test_a_guarded_stream_remembers_its_first_failure_alone() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as stream:
        guard = GuardedStream(stream)
        print("x" * 100_000, file=guard)  # type: ignore[call-overload]
        first = guard.lost
        print("y" * 100_000, file=guard)  # type: ignore[call-overload]
        guard.flush()
    assert first is not None and guard.lost is first
