"""Samples to numbers: validity, copies, neighbours, chance levels."""

from twoclocks.evaluation.metrics import EvaluationSettings, Evaluator, Metric, Outcome, counts
from twoclocks.evaluation.neighbours import nearest_distance

__all__ = ["EvaluationSettings", "Evaluator", "Metric", "Outcome", "counts", "nearest_distance"]
