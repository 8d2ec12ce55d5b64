"""Samples to numbers: validity, copies, neighbours, chance levels."""

from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.metric import Metric
from twoclocks.evaluation.metrics import EvaluationSettings, Evaluator, Outcome, counts
from twoclocks.evaluation.neighbours import Neighbours, nearest_distance

__all__ = [
    "Copies",
    "EvaluationSettings",
    "Evaluator",
    "Metric",
    "Neighbours",
    "Outcome",
    "counts",
    "nearest_distance",
]
