"""Sweeps: grids of runs (cells), executors that run them locally or on a Ray cluster, and a table of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.core.lazy import lazy_exports
from twoclocks.sweeps import local, on_ray
from twoclocks.sweeps.executors import EXECUTORS, executor_of

if TYPE_CHECKING:
    from twoclocks.sweeps.coordinator import Sweep, run_sweep
    from twoclocks.sweeps.grid import Cell, Plan, read_plan

__getattr__ = lazy_exports(  # these import torch; a list of executors needs none
    __name__,
    {
        "Cell": "twoclocks.sweeps.grid",
        "Plan": "twoclocks.sweeps.grid",
        "Sweep": "twoclocks.sweeps.coordinator",
        "read_plan": "twoclocks.sweeps.grid",
        "run_sweep": "twoclocks.sweeps.coordinator",
    },
)

__all__ = ["EXECUTORS", "Cell", "Plan", "Sweep", "executor_of", "local", "on_ray", "read_plan", "run_sweep"]
