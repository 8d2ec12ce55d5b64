"""Criteria: what counts as a copy of a training row, one file each."""

from twoclocks.monitor.criteria.base import CRITERIA, Criterion, Matcher, Matches
from twoclocks.monitor.criteria.choice import criterion_of
from twoclocks.monitor.criteria.correlation import Correlation
from twoclocks.monitor.criteria.distance import Distance
from twoclocks.monitor.criteria.embedding import Embedding
from twoclocks.monitor.criteria.exact import Exact
from twoclocks.monitor.criteria.extractable import Extractable
from twoclocks.monitor.criteria.hamming import Hamming
from twoclocks.monitor.criteria.perceptual_hash import PerceptualHash
from twoclocks.monitor.criteria.ratio import Ratio
from twoclocks.monitor.criteria.verbatim import Verbatim

__all__ = [
    "CRITERIA",
    "Correlation",
    "Criterion",
    "Distance",
    "Embedding",
    "Exact",
    "Extractable",
    "Hamming",
    "Matcher",
    "Matches",
    "PerceptualHash",
    "Ratio",
    "Verbatim",
    "criterion_of",
]
