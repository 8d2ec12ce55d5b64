"""One run: its settings, its execution, and its directory read back."""

from twoclocks.runs.assembly import Experiment
from twoclocks.runs.execution import run
from twoclocks.runs.load import Run, RunReading, load_run
from twoclocks.runs.session import Progress
from twoclocks.runs.settings import RunSettings, load_settings, preset_names, read_preset

__all__ = [
    "Experiment",
    "Progress",
    "Run",
    "RunReading",
    "RunSettings",
    "load_run",
    "load_settings",
    "preset_names",
    "read_preset",
    "run",
]
