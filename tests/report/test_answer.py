"""The first screen: verdict, clocks, window, and advice that fits them."""

from __future__ import annotations

import math

import pytest

from twoclocks.clocks import Clocks, Onset
from twoclocks.report.answer import answer_of

SEEN, LATER = Onset(5, 20, "observed"), Onset(40, 60, "observed")
NEVER = Onset(60, math.inf, "right-censored")


@pytest.mark.parametrize(
    ("clocks", "verdict", "window", "advice"),
    [
        (Clocks(SEEN, LATER), "window open", "20–40", "Stop training by step 40, and use weights from step 20 on."),
        (Clocks(SEEN, NEVER), "window open", "from 20, no end seen", "Use weights from step 20 on."),
        (Clocks(NEVER, SEEN), "window empty", "none", "Train on more samples, or use a smaller model."),
        (Clocks(NEVER, NEVER), "window unknown", "not known", "Neither clock was reached. Train longer."),
        (Clocks(SEEN, Onset(10, 30, "observed")), "window unknown", "not known", "between step 5 and step 30"),
        (
            Clocks(SEEN, Onset(40, math.inf, "right-censored", suspected=(40, 60))),
            "copying suspected",
            "20–40",
            "use weights of step 40 or earlier",
        ),
    ],
)
def test_the_answer_follows_from_the_clocks(clocks: Clocks, verdict: str, window: str, advice: str) -> None:
    found = answer_of(clocks)
    assert (found.verdict, found.window) == (verdict, window) and advice in found.advice
    assert (found.learned, found.memory) == (str(clocks.rule), str(clocks.memory))


def test_stored_weights_inside_the_window_are_named() -> None:
    clocks = Clocks(SEEN, LATER)
    assert "Stored there: steps 20, 30, 35 and 1 more." in answer_of(clocks, [40, 5, 20, 30, 35, 60]).advice
    assert "Stored there: step 30." in answer_of(clocks, [30]).advice
    assert "No weights were stored there" in answer_of(clocks, [5, 60]).advice
