"""Analyse many runs together: laws over sizes and batches, forecasts, phase diagrams, twins on disjoint data."""

from twoclocks.analysis.batches import BatchLaw, batch_law
from twoclocks.analysis.forecasts import Judgement, forecast_running, forecast_sizes
from twoclocks.analysis.laws import Laws, fit_runs
from twoclocks.analysis.phases import PhaseDiagram, phase_diagram
from twoclocks.analysis.plans import Plan, plan_run
from twoclocks.analysis.twins import compare_twins
from twoclocks.analysis.twins_info import TwinsInfo

__all__ = [
    "BatchLaw",
    "Judgement",
    "Laws",
    "PhaseDiagram",
    "Plan",
    "TwinsInfo",
    "batch_law",
    "compare_twins",
    "fit_runs",
    "forecast_running",
    "forecast_sizes",
    "phase_diagram",
    "plan_run",
]
