"""What is true: one rule family a file."""

import sys

from twoclocks.core.folders import import_all
from twoclocks.rules.base import RULES, Rule
from twoclocks.rules.parity import Parity

import_all(sys.modules[__name__])
create = RULES.create

__all__ = ["RULES", "Parity", "Rule", "create"]
