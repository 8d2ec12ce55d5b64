"""Memory that operations give back stays in the process, up to a limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the setting is one of glibc's allocator")
PROGRAM = """
import resource, sys
import torch
from twoclocks.training.cpu_memory import keep_memory

def faults(size, count, rounds=20):
    for _ in range(3):
        [torch.ones(size, dtype=torch.uint8) for _ in range(count)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        pieces = [torch.ones(size, dtype=torch.uint8) for _ in range(count)]
        del pieces
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / rounds

torch.set_num_threads(1)
if sys.argv[1] == "kept":
    assert keep_memory() and keep_memory()
print(faults(10 << 20, 12), faults(200 << 20, 1))
"""


def faults(way: str) -> tuple[float, float]:
    """Pages that the kernel had to give per round: for twelve pieces of 10 MiB, and for one of 200 MiB."""
    found = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True)
    small, large = found.stdout.split()
    return float(small), float(large)


def test_small_pieces_are_kept_and_large_ones_go_back() -> None:
    usual, kept = faults("usual"), faults("kept")
    assert usual[0] > 1000, "glibc's default returns them; if it does not any more, the setting is not needed"
    assert kept[0] < 10
    assert kept[1] > 50  # 100 pages of 2 MiB, or 51,200 of 4 KiB
