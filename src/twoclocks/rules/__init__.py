"""What is true: one rule family a file."""

from twoclocks.rules.base import RULES, Rule
from twoclocks.rules.parity import Parity

create = RULES.create

__all__ = ["RULES", "Parity", "Rule", "create"]
