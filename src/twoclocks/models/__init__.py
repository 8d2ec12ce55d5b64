"""Networks, with their settings beside them; no training in here."""

import sys

from twoclocks.core.discovery import import_all
from twoclocks.models.base import MODELS, ModelSettings, Network, parameter_count

import_all(sys.modules[__name__])
create = MODELS.create

__all__ = ["MODELS", "ModelSettings", "Network", "create", "parameter_count"]
