"""Change points of memory, by simulation with known truth: learning the rule is not copying."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twoclocks.clocks import ClockSettings, Series, change_point
from twoclocks.clocks.series import Look
from twoclocks.monitor.record import Record

STEPS = np.unique(np.geomspace(10, 10_000, 40).astype(int))
CHANCE = 0.02  # of a valid sample to be a copy
TRIALS = 1024


def simulated(rng: np.random.Generator, learned: float, begin: float = math.inf, rate: float = 0.1) -> Series:
    """A run that learns the rule around ``learned``; valid samples are copies by chance, later at ``rate``."""
    valid = rng.binomial(TRIALS, 1 / (1 + (STEPS / learned) ** -6.0))
    copied = rng.binomial(valid, np.where(begin <= STEPS, rate, CHANCE))
    return Series(STEPS, np.full(len(STEPS), TRIALS), copied, valid)


def test_learning_the_rule_does_not_look_like_copying() -> None:
    rng = np.random.default_rng(0)
    runs = [simulated(rng, learned) for learned in rng.uniform(50, 2000, 300)]
    assert np.mean([change_point(one.steps, one.copied, one.trials).seen for one in runs]) > 0.9  # among all samples
    clocks = [ClockSettings().read(one, CHANCE) for one in runs]
    assert np.mean([one.changes["memory"].seen for one in clocks]) <= 0.05
    assert all(one.changes["rule"].seen for one in clocks)


@pytest.mark.parametrize("rate", [0.06, 0.15])
def test_copying_that_begins_later_is_found_where_it_begins(rate: float) -> None:
    rng = np.random.default_rng(1)
    begin = int(STEPS[28])  # the first look at which samples are copied
    found = [ClockSettings().read(simulated(rng, 200, begin, rate), CHANCE).changes["memory"] for _ in range(300)]
    assert np.mean([one.seen for one in found]) > 0.95
    assert np.mean([one.lower < begin <= one.upper for one in found if one.seen]) >= 0.95


def test_looks_without_valid_samples_are_left_out() -> None:
    few = Series([10, 20, 30, 40], [100] * 4, [0, 0, 0, 90], [0, 0, 0, 95])
    found = ClockSettings().read(few, 0.0).changes["memory"]
    assert (found.lower, found.upper) == (0, math.inf)  # one look is left: nothing to compare it with
    assert "among valid samples" in (found.definition or "")
    none = ClockSettings().read(Series([10, 20], [100] * 2, [0, 0], [0, 0]), 0.0).changes["memory"]
    assert not none.seen
    some = Series([10, 20, 30, 40], [100] * 4, [0, 0, 0, 90], [0, 100, 100, 95])
    assert str(ClockSettings().read(some, 0.0).changes["memory"]) == "30–40"


def test_without_a_rule_all_samples_count() -> None:
    series = Series([10, 20, 30, 40], [100] * 4, [0, 0, 0, 90])
    changes = ClockSettings().read(series, 0.0).changes
    assert list(changes) == ["memory"] and str(changes["memory"]) == "30–40"
    assert "valid" not in (changes["memory"].definition or "")


def test_near_copies_that_are_invalid_do_not_count() -> None:
    looks = [Look(10 * k, copied, 100, 50, copied_valid=1) for k, copied in enumerate([1, 1, 60, 60], start=1)]
    series = Series.from_looks(looks)
    assert series.copied_valid == [1, 1, 1, 1] and not ClockSettings().read(series, 0.0).changes["memory"].seen
    without = Series.from_looks([Look(10, 60, 100, 50), looks[1]])
    assert without.copied_valid is None  # not known at every look
    assert np.array_equal(without.copies_among_valid()[1], [50, 1])  # never more than there are valid samples


def test_a_record_keeps_the_copies_that_are_valid() -> None:
    record = Record(with_validity=True)
    record.add(Look(10, 3, 100, 50, copied_valid=2))
    assert record.series("near copies").copied_valid == [2]
    with pytest.raises(ValueError, match="both copied and valid"):
        record.add(Look(20, 3, 100, 50, copied_valid=4))
