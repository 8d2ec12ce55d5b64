"""One run: its settings, its execution, and its directory read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.core.lazy import lazy_exports

if TYPE_CHECKING:
    from twoclocks.runs.assembly import Experiment
    from twoclocks.runs.execution import run
    from twoclocks.runs.load import Run, RunReading, load_run
    from twoclocks.runs.presets import preset_names, read_preset
    from twoclocks.runs.session import Progress
    from twoclocks.runs.settings import RunSettings, load_settings

__getattr__ = lazy_exports(  # reading a run needs no torch, training one does
    __name__,
    {
        "Experiment": "twoclocks.runs.assembly",
        "Progress": "twoclocks.runs.session",
        "Run": "twoclocks.runs.load",
        "RunReading": "twoclocks.runs.load",
        "RunSettings": "twoclocks.runs.settings",
        "load_run": "twoclocks.runs.load",
        "load_settings": "twoclocks.runs.settings",
        "preset_names": "twoclocks.runs.presets",
        "read_preset": "twoclocks.runs.presets",
        "run": "twoclocks.runs.execution",
    },
)

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
