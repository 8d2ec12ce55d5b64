"""Samples to numbers: validity, copies, neighbours, chance levels."""

from twoclocks.evaluation.controls import Control, controls_of, ngram_control, pairwise_control
from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.metric import Metric
from twoclocks.evaluation.metrics import EvaluationSettings, Evaluator, Outcome, counts
from twoclocks.evaluation.neighbours import Neighbours, nearest_distance

__all__ = [
    "Control",
    "Copies",
    "EvaluationSettings",
    "Evaluator",
    "Metric",
    "Neighbours",
    "Outcome",
    "controls_of",
    "counts",
    "nearest_distance",
    "ngram_control",
    "pairwise_control",
]
