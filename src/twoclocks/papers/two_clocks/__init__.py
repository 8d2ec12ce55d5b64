"""P1, "The two clocks and the innovation window": one recipe per claim."""

import sys

from twoclocks.core.discovery import import_all

import_all(sys.modules[__name__])
