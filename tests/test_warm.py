"""A command from the warm process behaves as one in a fresh process: output, exit codes, signals, folder."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from warm import WarmCommand

PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.mark.parametrize("words", [["--version"], ["list", "nonsense"], ["run", "--help"]])
def test_output_and_exit_code_are_those_of_a_fresh_process(words: list[str]) -> None:
    fresh = subprocess.run([sys.executable, "-m", "twoclocks", *words], capture_output=True, text=True, check=False)
    process = WarmCommand(words, **PIPES)
    assert process.communicate(timeout=60) == (fresh.stdout, fresh.stderr)
    assert process.returncode == fresh.returncode


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_as_a_fresh_process(number: signal.Signals) -> None:
    process = WarmCommand([], function="signal:pause")
    assert process.poll() is None
    while process.poll() is None:
        process.send_signal(number)
        time.sleep(0.02)
    assert process.returncode == -number


def test_it_starts_in_the_folder_of_its_caller(work: Path) -> None:
    process = WarmCommand([], function="os:getcwd", **PIPES)  # what a main function returns is printed by SystemExit
    assert process.communicate(timeout=60) == ("", f"{work}\n") and process.returncode == 1
