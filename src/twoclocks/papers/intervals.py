"""Arithmetic with numbers that lie in a known interval, such as the onsets of runs, and answers from them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from twoclocks.clocks.onset import Onset
from twoclocks.papers.claim import Answer


@dataclass(frozen=True)
class Interval:
    """A number between ``low`` and ``high``.

    ``high`` is inf where a run ended before its onset; ``low`` is inf too where there will never be one.

    >>> Interval(10, 20) / Interval(1, 2), Interval(10, 20) - Interval(1, 2), Interval(4, 9) ** 0.5
    (Interval(low=5.0, high=20.0), Interval(low=8, high=19), Interval(low=2.0, high=3.0))
    """

    low: float
    high: float

    def __truediv__(self, other: Interval) -> Interval:
        """The quotient of two numbers of at least 0."""
        return Interval(quotient(self.low, other.high, 0.0), quotient(self.high, other.low, math.inf))

    def __sub__(self, other: Interval) -> Interval:
        """The difference of two numbers; what is later than the end of both runs may be anything."""
        ends = self.low - other.high, self.high - other.low
        return Interval(-math.inf if math.isnan(ends[0]) else ends[0], math.inf if math.isnan(ends[1]) else ends[1])

    def __pow__(self, exponent: float) -> Interval:
        """A power, with a positive exponent, of a number of at least 0."""
        return Interval(self.low**exponent, self.high**exponent)

    def scaled(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)

    def at_least(self, least: float) -> Interval:
        """The same number, of which it is known that it is not smaller than ``least``."""
        return Interval(max(least, self.low), max(least, self.high))

    def __str__(self) -> str:
        return format(self)

    def __format__(self, form: str) -> str:
        """Such as ``900–1,200``, ``900``, ``> 900``, ``< 900`` or ``never``; ``form``: of each end, as of a float."""
        low, high = number(self.low, form), number(self.high, form)
        if self.low == -math.inf:
            return "unknown" if self.high == math.inf else f"< {high}"
        if math.isinf(self.high):
            return "never" if math.isinf(self.low) else f"> {low}"
        return low if low == high else f"{low}–{high}"

    def times(self, form: str = "") -> str:
        """As a factor: ``×4–5``, ``more than ×4``, or ``×∞`` where there is no end."""
        if math.isinf(self.low):
            return "×∞"
        return f"more than ×{number(self.low, form)}" if math.isinf(self.high) else f"×{format(self, form)}"

    def as_json(self) -> list[float | None]:
        """Both ends; JSON has no infinity, so an open end is null."""
        return [end if math.isfinite(end) else None for end in (self.low, self.high)]


def quotient(one: float, other: float, unknown: float) -> float:
    """A quotient of ends; ``unknown`` for 0/0 and inf/inf, which may be anything."""
    if one == other and (one == 0 or math.isinf(one)):
        return unknown
    return one / other if other else math.inf


def number(value: float, form: str = "") -> str:
    """By default three digits, or all digits before the point."""
    return format(value, form or (",.0f" if abs(value) >= 100 else ".3g"))


def interval_of(onset: Onset) -> Interval:
    return Interval(onset.lower, onset.upper)


def median_of(intervals: Sequence[Interval]) -> Interval:
    """Bounds of the median of several numbers.

    >>> median_of([Interval(1, 2), Interval(3, 4), Interval(9, math.inf)])
    Interval(low=3, high=4)
    """
    return Interval(statistics.median(one.low for one in intervals), statistics.median(one.high for one in intervals))


def largest_of(intervals: Sequence[Interval]) -> Interval:
    """Bounds of the largest of several numbers."""
    return Interval(max(one.low for one in intervals), max(one.high for one in intervals))


def range_of(intervals: Iterable[Interval]) -> Interval:
    """The interval in which all of several numbers lie.

    >>> range_of([Interval(1, 2), Interval(3, 4)])
    Interval(low=1, high=4)
    """
    every = [*intervals]
    return Interval(min(one.low for one in every), max(one.high for one in every))


def spread_of(intervals: Sequence[Interval]) -> Interval:
    """Bounds of the ratio of the largest to the smallest number.

    >>> spread_of([Interval(10, 12), Interval(20, 24), Interval(15, 16)])
    Interval(low=1.666..., high=2.4)
    >>> spread_of([Interval(10, 100), Interval(50, 60)])  # not 100/10: the first is one number
    Interval(low=1.0, high=6.0)
    """
    return largest_of([Interval(1.0, 1.0), *(one / other for one, other in permutations(intervals, 2))])


def is_below(one: Interval, other: Interval) -> Answer:
    """Whether one number is smaller than another: undecided where both answers are possible.

    Onsets lie after their lower end (see ``Onset``), so intervals that touch decide. They do not where the later one
    begins at 0, which an onset may be, or is a single number.

    >>> is_below(Interval(1, 2), Interval(2, 3)), is_below(Interval(2, 3), Interval(1, 2))
    ('yes', 'no')
    >>> is_below(Interval(1, 3), Interval(2, 4)), is_below(Interval(1, 2), Interval(2, 2))
    ('undecided', 'undecided')
    >>> is_below(Interval(0, 0), Interval(0, 500))  # both may be 0
    'undecided'
    """
    if is_wholly_below(one, other):
        return "yes"
    return "no" if is_wholly_below(other, one) else "undecided"


def is_wholly_below(one: Interval, other: Interval) -> bool:
    return one.high < other.low or (one.high == other.low and 0 < other.low < other.high)


def is_earlier(one: Onset, other: Onset) -> Answer:
    """Whether an onset comes before another; one that is not reached is later than all that came before its end."""
    return is_below(interval_of(one), interval_of(other))


def is_positive(one: Interval) -> Answer:
    """Whether a number is above 0. The difference of two confidence intervals: they must be apart, not only touch.

    >>> is_positive(Interval(2, 3) - Interval(0, 1)), is_positive(Interval(1, 2) - Interval(0, 1))
    ('yes', 'undecided')
    """
    return "yes" if one.low > 0 else "no" if one.high < 0 else "undecided"


def is_within(one: Interval, least: float, most: float) -> Answer:
    """Whether a number lies in [least, most]: undecided where both answers are possible.

    >>> is_within(Interval(6, 9), 5, 20), is_within(Interval(1, 3), 5, 20), is_within(Interval(4, 9), 5, 20)
    ('yes', 'no', 'undecided')
    """
    if least <= one.low and one.high <= most:
        return "yes"
    return "no" if one.high < least or one.low > most else "undecided"


def is_exponent(found: Interval, claimed: float, narrow: float) -> Answer:
    """Whether a fitted exponent is the claimed one up to ``narrow``, from its confidence interval.

    Yes: the interval lies within ``claimed`` ± ``narrow``, or is narrower than that and holds the claimed value. No: it
    lies outside. An interval that holds an end of ``claimed`` ± ``narrow`` decides nothing.

    >>> examples = (0.95, 1.1), (1.02, 1.1), (0.7, 0.8), (1.05, 1.2), (0.5, 1.4), (0.8, 1.05), (-math.inf, 2)
    >>> [is_exponent(Interval(*ends), 1, 0.15) for ends in examples]
    ['yes', 'yes', 'no', 'undecided', 'undecided', 'yes', 'undecided']
    """
    inside = is_within(found, claimed - narrow, claimed + narrow)
    if inside == "undecided" and found.low <= claimed <= found.high and found.high - found.low < 2 * narrow:
        return "yes"
    return inside
