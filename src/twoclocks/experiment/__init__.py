"""One run: its settings, its execution, and its directory read back."""

from twoclocks.experiment.assembly import Experiment
from twoclocks.experiment.load import Run, load_run
from twoclocks.experiment.run import run
from twoclocks.experiment.session import Progress
from twoclocks.experiment.settings import RunSettings, load_settings, preset_names, read_preset

__all__ = [
    "Experiment",
    "Progress",
    "Run",
    "RunSettings",
    "load_run",
    "load_settings",
    "preset_names",
    "read_preset",
    "run",
]
