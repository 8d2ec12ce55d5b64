"""Networks, with their settings beside them; no training in here."""

from twoclocks.models import dit, gpt
from twoclocks.models.base import MODELS, ModelSettings, parameter_count

create = MODELS.create

__all__ = ["MODELS", "ModelSettings", "create", "dit", "gpt", "parameter_count"]
