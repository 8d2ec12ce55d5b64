"""How much memory this process may use."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")  # version 2; in a container this is often the container's own group


def memory_limit() -> int | None:
    """Bytes: the machine's memory, or less where a control group or ``ulimit -v`` allows less; None: unknown."""
    limits = [*_machine(), *address_space(), *_control_groups()]
    return min(limits, default=None)


def _machine() -> Iterator[int]:
    with contextlib.suppress(ValueError, OSError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def address_space() -> Iterator[int]:
    """The limit of ``ulimit -v`` in bytes, if there is one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield soft


def _control_groups() -> Iterator[int]:
    """The limits of this process's group and of all groups above it; of version 1 only the limit of a container."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
        place = CGROUPS / own.lstrip("/")
        folders = [place, *(above for above in place.parents if above.is_relative_to(CGROUPS))]
        for path in [*(folder / "memory.max" for folder in folders), CGROUPS / "memory" / "memory.limit_in_bytes"]:
            with contextlib.suppress(OSError, ValueError):  # "max", or no such file
                yield int(path.read_text(encoding="ascii"))
