"""Onsets in loss curves: when does the loss on one split exceed that on another?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from twoclocks.clocks.onset import Onset, gap_onset
from twoclocks.clocks.settings import ClockSettings
from twoclocks.core.arrays import Floats

Steps = npt.NDArray[np.int64]
SMALLEST = 1e-3  # loss below which relative differences are not computed; the largest loss is about 1


def loss_clock(
    steps: Steps,
    upper: Floats,
    lower: Floats,
    chosen: npt.NDArray[np.bool_],
    departure: float,
    clocks: ClockSettings,
) -> Onset:
    """When the loss ``upper`` exceeds ``lower`` by the fraction ``departure`` of it, summed over the chosen levels.

    The onset holds with the confidence of the clock settings.

    Both are (steps, levels, rows), row by row under the same noise.
    """
    whole = lower[:, chosen].sum(axis=1).mean(axis=1, keepdims=True)  # (steps, 1)
    excess = (upper[:, chosen] - lower[:, chosen]).sum(axis=1) / np.maximum(whole, SMALLEST)
    return departs(steps, excess, departure, clocks)


def departs(steps: Steps, excess: Floats, departure: float, clocks: ClockSettings) -> Onset:
    """When the mean over rows of ``excess`` (steps, rows) rises above ``departure``."""
    errors = excess.std(axis=1, ddof=1) / math.sqrt(excess.shape[1])
    return gap_onset(steps, excess.mean(axis=1), errors, departure, clocks.sustain, clocks.confidence)


def earliest_split(
    steps: Steps, sigmas: Floats, upper: Floats, lower: Floats, departure: float, clocks: ClockSettings
) -> tuple[float, Onset] | None:
    """The σ at which the losses split first, and when; the error probability is divided among the levels."""
    shared = ClockSettings(sustain=clocks.sustain, confidence=1 - (1 - clocks.confidence) / len(sigmas))
    found = []
    for level, sigma in enumerate(sigmas):
        only = np.arange(len(sigmas)) == level
        one = loss_clock(steps, upper, lower, only, departure, shared if clocks.confidence else clocks)
        if one.seen:
            found.append((float(sigma), one))
    return min(found, key=lambda pair: pair[1].interpolated or pair[1].upper) if found else None
