"""A disk at one of whose calls the process dies, without a process of its own; settings of the state machines."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from twoclocks.store import files
from twoclocks.store.files import Disk


def machine_settings(examples: int, steps: int) -> settings:
    """The same examples every time; ``TWOCLOCKS_HYPOTHESIS=1000`` tries that many instead."""
    return settings(
        derandomize=True,
        max_examples=int(os.environ.get("TWOCLOCKS_HYPOTHESIS", examples)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=[Phase.generate],  # to look for a shorter example takes minutes
    )


class Crash(BaseException):
    """The process dies here."""


class DyingDisk(Disk):
    """At one call the process dies, or the disk is full from then on; a dead process changes nothing more."""

    def __init__(self, at: int, kind: str) -> None:
        self.left, self.kind, self.met = at, kind, False

    def meet(self, half: tuple[int, Any] | None = None) -> None:
        self.left -= 1
        if self.left > 0:
            return
        if not self.met and self.kind == "torn" and half is not None:
            os.write(half[0], bytes(half[1])[: len(half[1]) // 2])
        self.met = True
        raise OSError(errno.ENOSPC, "No space left on device") if self.kind == "full" else Crash

    def open(self, path: Path, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self.meet()
        return super().open(path, flags)

    def write(self, descriptor: int, data: bytes) -> int:
        self.meet((descriptor, data))
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.meet()  # the tests' own disks need not be waited for

    def truncate(self, descriptor: int, size: int) -> None:
        self.meet()
        super().truncate(descriptor, size)

    def replace(self, source: Path, target: Path) -> None:
        self.meet()
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self.meet()
        super().unlink(path)


@contextmanager
def dying(at: int, kind: str) -> Iterator[DyingDisk]:
    disk, unlink = DyingDisk(at, kind), os.unlink

    def unlink_unless_dead(path: Path) -> None:
        if disk.met and kind != "full":
            raise OSError(errno.EIO, "a dead process tidies nothing up")
        unlink(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "disk", disk)
        patch.setattr(os, "unlink", unlink_unless_dead)
        yield disk
