"""Arithmetic with numbers that are known to lie in an interval, such as the onsets of runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from twoclocks.clocks.onset import Onset
from twoclocks.papers.claim import Answer


@dataclass(frozen=True)
class Interval:
    """A number between ``low`` and ``high``; ``high`` is inf where a run ended before its onset.

    >>> Interval(10, 20) / Interval(1, 2), Interval(10, 20) - Interval(1, 2)
    (Interval(low=5.0, high=20.0), Interval(low=8, high=19))
    """

    low: float
    high: float

    def __truediv__(self, other: Interval) -> Interval:
        low = self.low / other.high if other.high else math.inf
        return Interval(low, self.high / other.low if other.low else math.inf)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def scaled(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"> {number(self.low)}"
        low, high = number(self.low), number(self.high)
        return low if low == high else f"{low}–{high}"

    @property
    def times(self) -> str:
        """As a factor: ``×4–5``, or ``more than ×4``."""
        return f"more than ×{number(self.low)}" if math.isinf(self.high) else f"×{self}"

    def as_json(self) -> list[float | None]:
        """Both ends; JSON has no infinity, so an open end is null."""
        return [end if math.isfinite(end) else None for end in (self.low, self.high)]


def number(value: float) -> str:
    """Three digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def interval_of(onset: Onset) -> Interval:
    return Interval(onset.lower, onset.upper)


def median_of(onsets: Sequence[Onset]) -> Interval:
    """Bounds of the median of onsets, from the ends of their intervals.

    >>> median_of([Onset(1, 2, "observed"), Onset(3, 4, "observed"), Onset(9, math.inf, "right-censored")])
    Interval(low=3, high=4)
    """
    return Interval(statistics.median(one.lower for one in onsets), statistics.median(one.upper for one in onsets))


def spread_of(intervals: Sequence[Interval]) -> Interval:
    """Bounds of the ratio of the largest to the smallest number.

    >>> spread_of([Interval(10, 12), Interval(20, 24), Interval(15, 16)])
    Interval(low=1.666..., high=2.4)
    """
    largest = Interval(max(one.low for one in intervals), max(one.high for one in intervals))
    smallest = Interval(min(one.low for one in intervals), min(one.high for one in intervals))
    ratio = largest / smallest
    return Interval(max(1.0, ratio.low), max(1.0, ratio.high))


def is_below(one: Interval, other: Interval) -> Answer:
    """Whether one number is smaller than another: undecided where their intervals overlap.

    >>> is_below(Interval(1, 2), Interval(2, 3)), is_below(Interval(2, 3), Interval(1, 2))
    ('yes', 'no')
    >>> is_below(Interval(1, 3), Interval(2, 4))
    'undecided'
    >>> is_below(Interval(0, 0), Interval(0, 500))  # both may be 0
    'undecided'
    """
    if one.low == other.low == 0:
        return "undecided"
    if one.high <= other.low and math.isfinite(one.high):
        return "yes"
    return "no" if other.high <= one.low and math.isfinite(other.high) else "undecided"
