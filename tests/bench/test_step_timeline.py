"""The timeline of a step is read from a profiler's trace as it was written."""

from __future__ import annotations

import doctest
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "step_timeline.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("step_timeline", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def event(name: str, begin: float, duration: float, kind: str = "kernel", **given: Any) -> dict[str, Any]:
    return {"cat": kind, "name": name, "ts": begin, "dur": duration, "args": {"stream": 7, **given}}


def test_only_the_gpus_work_is_shown_in_its_order(program: ModuleType) -> None:
    shape = {"grid": [3, 2, 1], "registers per thread": 104, "shared memory": 512}
    events = [
        event("product", 10.0, 4.0, **shape),
        event("aten::mm", 0.0, 99.0, kind="cpu_op"),
        {"ph": "M", "name": "process_name"},
        event("Memset", 2.0, 1.0, kind="gpu_memset", stream=9),
        event("product", 20.0, 6.0, **shape),
    ]
    memset, first, second = program.kernels_of(events)
    assert (memset.name, memset.stream, memset.programs) == ("Memset", 9, None)
    assert (first.begin, first.end, first.programs, first.registers, first.shared_memory) == (10.0, 14.0, 6, 104, 512)
    assert program.idle([memset, first, second]) == 7.0 + 6.0
    assert list(program.by_name([memset, first, second]).items()) == [("product", [4.0, 6.0]), ("Memset", [1.0])]


def test_the_example_in_its_text(program: ModuleType) -> None:
    assert doctest.testmod(program).failed == 0


def test_it_prints_a_line_per_name(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.show("DiT", 0.002, program.kernels_of([event("a", 0.0, 4.0), event("b", 5.0, 2.0), event("a", 6.0, 2.0)]))
    head, first, second = capsys.readouterr().out.strip().split("\n")
    assert head == "DiT: 2000 µs per step, 8 under the profiler, 1 idle"
    assert first.split() == ["6.0", "µs", "2", "×", "3.0", "a"] and second.split()[-1] == "b"
