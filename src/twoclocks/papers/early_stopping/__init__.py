"""P2, "Bigger isn't always memorizing": one file per figure or claim."""

import sys

from twoclocks.core.discovery import import_all

import_all(sys.modules[__name__])
