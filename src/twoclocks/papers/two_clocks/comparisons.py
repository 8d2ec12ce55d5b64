"""Answers from intervals: what is earlier, what is larger, and what several seeds say together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from twoclocks.clocks.onset import Onset
from twoclocks.papers.claim import Answer
from twoclocks.papers.records import Records

Span = tuple[float, float]  # least and largest possible value


def smaller(one: Span, other: Span) -> Answer:
    """Whether one number is smaller than another; undecided where their intervals overlap.

    >>> smaller((1, 2), (3, 4)), smaller((3, 4), (1, 2)), smaller((1, 3), (2, 4))
    ('yes', 'no', 'undecided')
    """
    if one[1] < other[0]:
        return "yes"
    return "no" if other[1] < one[0] else "undecided"


def earlier(one: Onset, other: Onset) -> Answer:
    """Whether an onset comes before another; one that is not reached is later than all that are."""
    if one.seen and one.upper <= other.lower:
        return "yes"
    return "no" if other.seen and other.upper <= one.lower else "undecided"


def agreed(answers: Iterable[Answer]) -> Answer:
    """What several seeds say together: undecided unless all say the same.

    >>> agreed(["yes", "yes"]), agreed(["yes", "no"]), agreed([])
    ('yes', 'undecided', 'undecided')
    """
    found = set(answers)
    return found.pop() if len(found) == 1 else "undecided"


def range_of(onsets: Sequence[Onset]) -> Span:
    """The least and the largest step that some seeds' onsets leave possible; no end where one was not reached."""
    return min((one.lower for one in onsets), default=0.0), max((one.upper for one in onsets), default=math.inf)


def quotient(one: Span, other: Span) -> Span:
    """The least and the largest quotient of two positive numbers that are known by their intervals."""
    least = one[0] / other[1] if math.isfinite(other[1]) else 0.0
    return least, one[1] / other[0] if other[0] else math.inf


def largest_n(records: Records) -> Records:
    """The runs with the most training samples."""
    most = max((one.n for one in records), default=0)
    return records.those(lambda one: one.n == most)


def steps_words(span: Span) -> str:
    """Such as ``900–1,200``, ``900``, ``at least 900`` or ``never``."""
    low, high = span
    if not math.isfinite(low):
        return "never"
    if not math.isfinite(high):
        return f"at least {low:,.0f}"
    return f"{low:,.0f}–{high:,.0f}" if high > low else f"{low:,.0f}"
