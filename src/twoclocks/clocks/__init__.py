"""Numbers to times: onsets, the window between them, the law, and the monitor; numpy and scipy only."""

from twoclocks.clocks.law import Law, fit_law
from twoclocks.clocks.monitor import Decision, Monitor
from twoclocks.clocks.onset import Onset, onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.clocks.window import Clocks

__all__ = ["ClockSettings", "Clocks", "Decision", "Law", "Monitor", "Onset", "fit_law", "onset"]
