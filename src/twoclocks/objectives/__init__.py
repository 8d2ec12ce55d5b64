"""Training objectives: corruption, loss and sampling. One file per objective, one sampling loop for all."""

import sys

from twoclocks.core.discovery import import_all
from twoclocks.objectives.autoregressive import Autoregressive
from twoclocks.objectives.base import OBJECTIVES, Objective, sample
from twoclocks.objectives.edm import EDM
from twoclocks.objectives.fixed_noise import FixedNoise

import_all(sys.modules[__name__])
create = OBJECTIVES.create

__all__ = ["EDM", "OBJECTIVES", "Autoregressive", "FixedNoise", "Objective", "create", "sample"]
