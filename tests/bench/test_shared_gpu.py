"""The benchmark of processes that share a GPU stops the MPS daemon that it started, whatever happens."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "shared_gpu.py"
# In place of NVIDIA's program, which needs its driver: it notes how it is called, and with which folder of pipes.
CONTROL = """#!/bin/sh
pid="$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
if [ "$1" = "-d" ]; then
  sleep 60 & echo $! > "$pid"; cp "$pid" "$NOTES/pid"; echo "start $pid" >> "$NOTES/calls"
else
  read word; echo "$word $pid" >> "$NOTES/calls"
  if [ "$OBEYS" = yes ]; then kill $(cat "$pid"); else exit 1; fi
fi
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text(CONTROL)
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("NOTES", str(tmp_path))
    spec = importlib.util.spec_from_file_location("shared_gpu", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("obeys", ["yes", "no"])
def test_the_daemon_is_stopped(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obeys: str
) -> None:
    """By its own command; where that fails, by its process id."""
    monkeypatch.setenv("OBEYS", obeys)
    with pytest.raises(ZeroDivisionError), program.service(True) as environment:
        raise ZeroDivisionError
    pid = Path(environment["CUDA_MPS_PIPE_DIRECTORY"]) / "nvidia-cuda-mps-control.pid"
    assert (tmp_path / "calls").read_text() == f"start {pid}\nquit {pid}\n" and not pid.parent.exists()
    daemon = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10
    while is_running(daemon) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(daemon)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_without_it_nothing_is_started_and_no_other_daemon_is_used(program: ModuleType, tmp_path: Path) -> None:
    with program.service(False) as environment:
        assert list(Path(environment["CUDA_MPS_PIPE_DIRECTORY"]).iterdir()) == []
    assert not (tmp_path / "calls").exists()
