"""P1, "The two clocks and the innovation window": its runs, and one file per claim, figure and table."""

import sys

from twoclocks.core.discovery import import_all

import_all(sys.modules[__name__])
