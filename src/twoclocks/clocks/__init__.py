"""Numbers to times: onsets, the window between them, laws, forecasts and the monitor; numpy and scipy only."""

from twoclocks.clocks.change_point import change_point
from twoclocks.clocks.collapse import Collapse, collapse
from twoclocks.clocks.copies import Distance, Exact, Hamming, Ratio
from twoclocks.clocks.forecast import Forecast, forecast_run, forecast_size, gap_prior
from twoclocks.clocks.law import Law, fit_law
from twoclocks.clocks.monitor import Decision, Monitor
from twoclocks.clocks.onset import Onset, gap_onset, onset
from twoclocks.clocks.record import Look
from twoclocks.clocks.seeds import VarianceSplit, variance_split
from twoclocks.clocks.settings import ClockSettings, Series
from twoclocks.clocks.window import Clocks

__all__ = [
    "ClockSettings",
    "Clocks",
    "Collapse",
    "Decision",
    "Distance",
    "Exact",
    "Forecast",
    "Hamming",
    "Law",
    "Look",
    "Monitor",
    "Onset",
    "Ratio",
    "Series",
    "VarianceSplit",
    "change_point",
    "collapse",
    "fit_law",
    "forecast_run",
    "forecast_size",
    "gap_onset",
    "gap_prior",
    "onset",
    "variance_split",
]
