"""Corrupt, measure, sample: one file a process, one loop that samples them all."""

from twoclocks.objectives.autoregressive import Autoregressive
from twoclocks.objectives.base import OBJECTIVES, Objective, sample
from twoclocks.objectives.edm import EDM

create = OBJECTIVES.create

__all__ = ["EDM", "OBJECTIVES", "Autoregressive", "Objective", "create", "sample"]
