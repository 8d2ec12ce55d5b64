"""Memory that operations give back stays in the process, up to a limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the setting is one of glibc's allocator")
# Only the first pieces of a size show what the default is: later, it depends on what else lies at the end of the heap.
PROGRAM = """
import os, sys
from pathlib import Path
import torch
from twoclocks.training.cpu_memory import keep_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

def given_back(size, count):
    pieces = [torch.ones(size << 20, dtype=torch.uint8) for _ in range(count)]
    full = resident()
    del pieces
    return full - resident()

torch.set_num_threads(1)
if sys.argv[1] == "kept":
    assert keep_memory() and keep_memory()
print(given_back(10, 12), given_back(200, 1))
"""


def measure(way: str) -> tuple[float, float]:
    """MiB given back of twelve pieces of 10 MiB, and of one of 200 MiB, in a new process."""
    found = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True)
    small, large = found.stdout.split()
    return float(small), float(large)


def test_small_pieces_are_kept_and_large_ones_go_back() -> None:
    usual, kept = measure("usual"), measure("kept")
    assert usual[0] > 100, "glibc's default returns them; if it does not any more, the setting is not needed"
    assert kept[0] < 10
    assert min(kept[1], usual[1]) > 190
