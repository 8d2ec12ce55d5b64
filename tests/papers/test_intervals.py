"""Arithmetic with intervals: open ends, zeros, ends that touch; and what they say about the order of two numbers."""

from __future__ import annotations

import math
from itertools import product

import pytest

from twoclocks.clocks.onset import Onset
from twoclocks.papers.intervals import (
    Interval,
    is_below,
    is_earlier,
    is_positive,
    range_of,
    spread_of,
)

NEVER = Interval(math.inf, math.inf)


def test_quotients_with_open_ends_and_zeros() -> None:
    assert Interval(8, math.inf) / Interval(1, 2) == Interval(4, math.inf)
    assert Interval(8, 9) / Interval(2, math.inf) == Interval(0, 4.5)
    assert Interval(8, 9) / Interval(0, 2) == Interval(4, math.inf)
    assert Interval(8, 9) / Interval(0, 0) == NEVER
    assert Interval(0, 0) / Interval(0, 0) == Interval(0, math.inf) == NEVER / NEVER  # anything


def test_how_intervals_are_written() -> None:
    found = [Interval(900, 1200), Interval(900, 900), Interval(900, math.inf), NEVER]
    assert [str(one) for one in found] == ["900–1,200", "900", "> 900", "never"]
    ratio = Interval(1.234, 5.678)
    assert (f"{ratio}", f"{ratio:.2g}", ratio.times(".2g")) == ("1.23–5.68", "1.2–5.7", "×1.2–5.7")
    assert Interval(8, math.inf).times() == "more than ×8" and f"{Interval(0.501, 0.502):.2f}" == "0.50"
    assert Interval(8, math.inf).as_json() == [8, None] and NEVER.as_json() == [None, None]


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ((1, 2), (3, 4), "yes"),
        ((1, 3), (2, 4), "undecided"),
        ((1, 2), (2, 3), "yes"),  # an onset lies after its lower end
        ((1, 2), (2, 2), "undecided"),  # both may be 2
        ((2, 2), (2, 3), "yes"),
        ((2, 2), (2, 2), "undecided"),
        ((0, 0), (0, 500), "undecided"),  # both may be 0: there from the start
        ((0, 0), (0, 0), "undecided"),
        ((0, 0), (1, 500), "yes"),
        ((900, 1200), (1200, math.inf), "yes"),
        ((900, math.inf), (1200, math.inf), "undecided"),
        ((900, 1200), (math.inf, math.inf), "yes"),
        ((900, math.inf), (math.inf, math.inf), "undecided"),
        ((math.inf, math.inf), (math.inf, math.inf), "undecided"),
    ],
)
def test_order_of_two_numbers(one: tuple[float, float], other: tuple[float, float], answer: str) -> None:
    """The other way round gives the opposite answer."""
    assert is_below(Interval(*one), Interval(*other)) == answer
    opposite = {"yes": "no", "undecided": "undecided"}[answer]
    assert is_below(Interval(*other), Interval(*one)) == opposite


def test_onsets_that_are_there_from_the_start_are_not_ordered() -> None:
    start, soon = Onset(0, 0, "left-censored"), Onset(0, 500, "left-censored")
    assert is_earlier(start, soon) == is_earlier(start, start) == "undecided"
    assert is_earlier(soon, Onset(500, math.inf, "right-censored")) == "yes"


def test_confidence_intervals_that_touch_are_not_apart() -> None:
    lower, higher = Interval(0.5, 0.6), Interval(0.6, 0.7)
    assert is_positive(higher - lower) == "undecided" == is_positive(lower - higher)
    assert is_positive(higher - Interval(0.4, 0.5)) == "yes" and is_positive(Interval(0.4, 0.5) - higher) == "no"


def test_bounds_hold_for_every_choice_of_the_numbers() -> None:
    """Against the extremes over all ends."""
    for some in ([(10, 12), (20, 24), (15, 16)], [(10, 100), (50, 60)], [(3, 4), (3, 4)], [(1, 9), (2, 3), (2, 8)]):
        intervals = [Interval(*one) for one in some]
        spreads = [max(chosen) / min(chosen) for chosen in product(*some)]
        assert spread_of(intervals).high == max(spreads)
        assert range_of(intervals) == Interval(min(low for low, _ in some), max(high for _, high in some))
