"""A monitor for any training loop: samples in, clocks and a stop decision out; numpy and scipy only at import."""

from twoclocks.clocks.series import Look
from twoclocks.monitor.criteria import (
    CRITERIA,
    Correlation,
    Criterion,
    Distance,
    Embedding,
    Exact,
    Hamming,
    Matches,
    PerceptualHash,
    Ratio,
    Verbatim,
)
from twoclocks.monitor.decision import Copies, Decision
from twoclocks.monitor.monitor import Monitor
from twoclocks.monitor.symmetries import SYMMETRIES

__all__ = [
    "CRITERIA",
    "SYMMETRIES",
    "Copies",
    "Correlation",
    "Criterion",
    "Decision",
    "Distance",
    "Embedding",
    "Exact",
    "Hamming",
    "Look",
    "Matches",
    "Monitor",
    "PerceptualHash",
    "Ratio",
    "Verbatim",
]
