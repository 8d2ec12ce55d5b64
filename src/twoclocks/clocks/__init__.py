"""From measured curves to times: onsets, the window between them, laws and forecasts; numpy and scipy only."""

from twoclocks.clocks.chance import Chance
from twoclocks.clocks.change_point import change_point
from twoclocks.clocks.collapse import Collapse, collapse
from twoclocks.clocks.forecast import Forecast, forecast_run, forecast_size, gap_prior
from twoclocks.clocks.law import Law, fit_law
from twoclocks.clocks.onset import Onset, gap_onset, onset
from twoclocks.clocks.seeds import VarianceSplit, variance_split
from twoclocks.clocks.series import Series
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.size_collapse import SizeCollapse, Spread, collapse_over_sizes
from twoclocks.clocks.window import Clocks

__all__ = [
    "Chance",
    "ClockSettings",
    "Clocks",
    "Collapse",
    "Forecast",
    "Law",
    "Onset",
    "Series",
    "SizeCollapse",
    "Spread",
    "VarianceSplit",
    "change_point",
    "collapse",
    "collapse_over_sizes",
    "fit_law",
    "forecast_run",
    "forecast_size",
    "gap_onset",
    "gap_prior",
    "onset",
    "variance_split",
]
