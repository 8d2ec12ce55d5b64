"""Samples to numbers: validity, copies, neighbours, chance levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twoclocks.core.lazy import lazy_exports

if TYPE_CHECKING:
    from twoclocks.evaluation.controls import Control, controls_of, ngram_control, pairwise_control
    from twoclocks.evaluation.copies import Copies
    from twoclocks.evaluation.metric import Metric
    from twoclocks.evaluation.metrics import EvaluationSettings, Evaluator, Outcome
    from twoclocks.evaluation.neighbours import Neighbours, nearest_distance

__getattr__ = lazy_exports(  # tables of clocks need the words of this folder, but no torch
    __name__,
    {
        "Control": "twoclocks.evaluation.controls",
        "Copies": "twoclocks.evaluation.copies",
        "EvaluationSettings": "twoclocks.evaluation.metrics",
        "Evaluator": "twoclocks.evaluation.metrics",
        "Metric": "twoclocks.evaluation.metric",
        "Neighbours": "twoclocks.evaluation.neighbours",
        "Outcome": "twoclocks.evaluation.metrics",
        "controls_of": "twoclocks.evaluation.controls",
        "nearest_distance": "twoclocks.evaluation.neighbours",
        "ngram_control": "twoclocks.evaluation.controls",
        "pairwise_control": "twoclocks.evaluation.controls",
    },
)

__all__ = [
    "Control",
    "Copies",
    "EvaluationSettings",
    "Evaluator",
    "Metric",
    "Neighbours",
    "Outcome",
    "controls_of",
    "nearest_distance",
    "ngram_control",
    "pairwise_control",
]
