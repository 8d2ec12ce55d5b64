"""Sweeps: grids of runs (cells), executors that run them locally or on a Ray cluster, and a table of results."""

from twoclocks.sweeps import local, on_ray
from twoclocks.sweeps.coordinator import Sweep, run_sweep
from twoclocks.sweeps.executors import EXECUTORS, executor_of
from twoclocks.sweeps.grid import Cell, Plan, read_plan

__all__ = ["EXECUTORS", "Cell", "Plan", "Sweep", "executor_of", "local", "on_ray", "read_plan", "run_sweep"]
