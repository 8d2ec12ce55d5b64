"""A monitor for any training loop: samples in, clocks and a stop decision out; numpy and scipy only at import."""

from twoclocks.clocks.series import Look
from twoclocks.monitor.criteria import (
    CRITERIA,
    Correlation,
    Criterion,
    Distance,
    Embedding,
    Exact,
    Extractable,
    Hamming,
    Matches,
    PerceptualHash,
    Ratio,
    Verbatim,
)
from twoclocks.monitor.decision import Copies, Decision
from twoclocks.monitor.extraction import Extraction, continue_pieces, measure_extraction
from twoclocks.monitor.monitor import Monitor
from twoclocks.monitor.run_lengths import RunLengths
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
    "Extractable",
    "Extraction",
    "Hamming",
    "Look",
    "Matches",
    "Monitor",
    "PerceptualHash",
    "Ratio",
    "RunLengths",
    "Verbatim",
    "continue_pieces",
    "measure_extraction",
]
