"""Memory of the CPU stays in the process between two operations.

Every operation of torch asks for memory and gives it back. By default, glibc returns large pieces to the operating
system at once. The next operation then gets other pages, which the kernel has to fill with zeros first. For a small GPT
that took a third of a training step (benchmarks/cpu_memory.py).
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

MEBIBYTE = 1 << 20
LARGEST_KEPT = 64 * MEBIBYTE  # pieces above it still go back at once
MOST_UNUSED = 256 * MEBIBYTE  # at the end of the heap; what exceeds it goes back
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


@cache
def keep_memory() -> bool:
    """Keep memory in this process from now on; false where the allocator is not glibc's, and nothing is changed."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) and library.mallopt(M_TRIM_THRESHOLD, MOST_UNUSED))
