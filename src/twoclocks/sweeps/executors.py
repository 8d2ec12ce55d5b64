"""Where cells run: an executor opens a pool, a pool runs one order at a time in each of its places.

A new executor is one registered class; ``twoclocks.sweeps.coordinator`` knows nothing but what stands here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoclocks.core.config import Settings, as_mapping, build, setting
from twoclocks.core.registry import Registry


@dataclass(frozen=True)
class Job:
    """One cell to be run: everything as plain text and numbers, to be sent anywhere."""

    key: str
    settings: dict[str, Any]
    out: str
    checkpoint_seconds: float
    alone: bool = False  # with a whole device to itself
    imports: tuple[str, ...] = ()  # files of the user, which the worker imports before it builds the settings

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class JobResult:
    """What became of an order: a word from ``work``, or ``lost`` where the process died before it could say one."""

    key: str
    outcome: str
    reason: str = ""


class Pool(ABC):
    """Runs orders; made by an executor, closed by its context."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Orders at a time."""

    @abstractmethod
    def start(self, order: Job) -> None: ...

    @abstractmethod
    def wait(self, seconds: float) -> list[JobResult]:
        """Orders that ended, as soon as there are any; none after ``seconds``."""

    @abstractmethod
    def close(self) -> None:
        """Ask what still runs to stop, with all it did stored, and release everything."""

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, kw_only=True)
class Executor(Settings):
    """Settings of every executor."""

    workers: int = setting(0, "cells at a time; 0: as many as fit", at_least=0, at_most=1024)
    cells_per_gpu: int = setting(4, "cells that share a GPU", at_least=1, at_most=64)

    @abstractmethod
    def open(self, device: str, root: Path) -> Pool:
        """A pool for cells that train on ``device`` (cpu or cuda) and store below ``root``."""


EXECUTORS: Registry[Executor] = Registry("executor", Executor)


def executor_of(name: str, workers: int, overrides: Mapping[str, Any]) -> tuple[Executor, dict[str, Any]]:
    """The executor that a command line asks for (``--executor.KEY``), and the settings that are for the cells."""
    cells = dict(overrides)
    section = as_mapping(cells.pop("executor", {}), "executor")
    return build(EXECUTORS.get(name), {"workers": workers, **section}, "executor"), cells
