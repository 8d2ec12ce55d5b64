"""Samples to numbers: a registry of metrics with their chance levels, copies, neighbours, controls."""

from twoclocks.evaluation.controls import Control, controls_of, ngram_control, pairwise_control
from twoclocks.evaluation.copies import Copies
from twoclocks.evaluation.diversity import DistinctNew, PartEntropy
from twoclocks.evaluation.evaluator import Evaluator
from twoclocks.evaluation.metric import METRICS, Column, Count, Metric, metrics_of, proportion
from twoclocks.evaluation.nearest import NearestDistance
from twoclocks.evaluation.neighbours import Neighbours, nearest_distance
from twoclocks.evaluation.pieces import PartAccuracy, PartMemorization, PartOmitted
from twoclocks.evaluation.quality.metrics import ImageQuality
from twoclocks.evaluation.quantization import Invalid, QuantizationDistance
from twoclocks.evaluation.samples import Outcome, Reference, Samples
from twoclocks.evaluation.settings import EvaluationSettings
from twoclocks.evaluation.texts import TextDistance, VerbatimRun
from twoclocks.evaluation.whole_samples import HoldoutMemorization, SampleAccuracy, SampleMemorization, ValidNew

__all__ = [
    "METRICS",
    "Column",
    "Control",
    "Copies",
    "Count",
    "DistinctNew",
    "EvaluationSettings",
    "Evaluator",
    "HoldoutMemorization",
    "ImageQuality",
    "Invalid",
    "Metric",
    "NearestDistance",
    "Neighbours",
    "Outcome",
    "PartAccuracy",
    "PartEntropy",
    "PartMemorization",
    "PartOmitted",
    "QuantizationDistance",
    "Reference",
    "SampleAccuracy",
    "SampleMemorization",
    "Samples",
    "TextDistance",
    "ValidNew",
    "VerbatimRun",
    "controls_of",
    "metrics_of",
    "nearest_distance",
    "ngram_control",
    "pairwise_control",
    "proportion",
]
