"""Base classes of executors: an executor opens a pool, and a pool runs jobs (cells), several at a time.

A new executor is one registered class; ``twoclocks.sweeps.coordinator`` uses only what is defined here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twoclocks.core.config import Settings, as_mapping, build, setting
from twoclocks.core.registry import Registry
from twoclocks.sweeps.together import Packing

if TYPE_CHECKING:
    from twoclocks.runs.together import Form


@dataclass(frozen=True)
class Job:
    """A cell to run, or several together, as plain text and numbers that can be sent to another process or machine."""

    key: str
    settings: dict[str, Any]
    out: str
    checkpoint_seconds: float
    alone: bool = False  # with a whole device to itself
    # Path and SHA-256 of the user's files: the worker imports them first, and fails if they are another version.
    imports: tuple[dict[str, str], ...] = ()
    # Further cells that are trained together with this one, each as ``{"key", "settings", "out"}``, and how they are.
    others: tuple[dict[str, Any], ...] = ()
    form: Form | None = None

    @property
    def keys(self) -> list[str]:
        """The keys of all its cells."""
        return [self.key, *(one["key"] for one in self.others)]

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class JobResult:
    """The outcome of one cell of a job: one of ``run_job``, or ``lost`` if the process died before it returned one."""

    key: str
    outcome: str
    reason: str = ""


class Pool(ABC):
    """Runs jobs; opened by an executor, closed at the end of its ``with`` block."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Most jobs at a time."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a job, and return at once."""

    @abstractmethod
    def wait(self, seconds: float) -> list[JobResult]:
        """Results of the cells of jobs that ended, as soon as there are any; an empty list after ``seconds``."""

    @abstractmethod
    def close(self) -> None:
        """Stop the jobs that still run, after they stored their state, and release all resources."""

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, kw_only=True)
class Executor(Settings):
    """Base class of executors, with the settings that all have."""

    workers: int = setting(0, "cells at a time; 0: as many as there is room for", at_least=0, at_most=1024)
    cells_per_gpu: int = setting(4, "cells that share a GPU", at_least=1, at_most=64)

    @property
    def packing(self) -> Packing:
        """Which cells a job may have together."""
        return Packing()

    @abstractmethod
    def open(self, device: str, root: Path) -> Pool:
        """A pool for cells that train on ``device`` (cpu or cuda) and store below ``root``."""


EXECUTORS: Registry[Executor] = Registry("executor", Executor)


def executor_of(name: str, workers: int, overrides: Mapping[str, Any]) -> tuple[Executor, dict[str, Any]]:
    """The executor that a command line asks for (``--executor.KEY``), and the settings that are for the cells."""
    cells = dict(overrides)
    section = as_mapping(cells.pop("executor", {}), "executor")
    return build(EXECUTORS.get(name), {"workers": workers, **section}, "executor"), cells
