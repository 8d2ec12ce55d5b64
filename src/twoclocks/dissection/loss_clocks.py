"""Onsets in loss curves: when does the loss on one split exceed that on another?"""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def level_clocks(
    steps: Steps, upper: Floats, lower: Floats, departure: float, clocks: ClockSettings
) -> tuple[Onset, ...]:
    """The loss clock of each noise level alone; the error probability is divided among the levels."""
    levels = upper.shape[1]
    shared = ClockSettings(sustain=clocks.sustain, confidence=1 - (1 - clocks.confidence) / levels)
    chosen = shared if clocks.confidence else clocks
    return tuple(loss_clock(steps, upper, lower, np.arange(levels) == k, departure, chosen) for k in range(levels))


def earliest_split(sigmas: Floats, onsets: Sequence[Onset]) -> tuple[float, Onset] | None:
    """The σ at which the losses split first, and when, from the clocks of all levels."""
    found = [(float(sigma), one) for sigma, one in zip(sigmas, onsets, strict=True) if one.seen]
    return min(found, key=lambda pair: pair[1].interpolated or pair[1].upper) if found else None
