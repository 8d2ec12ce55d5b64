"""The loop, its optimizer and the cadence of evaluations."""

from twoclocks.training.cadence import check_schedule, log_spaced
from twoclocks.training.loop import DivergedError, TrainingSettings, make_optimizer, train

__all__ = ["DivergedError", "TrainingSettings", "check_schedule", "log_spaced", "make_optimizer", "train"]
