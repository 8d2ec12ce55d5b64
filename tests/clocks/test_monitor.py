from __future__ import annotations

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.clocks.monitor import exact_interval
from twoclocks.core.errors import UserError
from twoclocks.data import cube_set

RULE = tc.rules.create("parity", length=24, group=2)
TRAIN = tc.data.training_set(RULE, n=40, seed=0)


def mixture(step: int, valid: float, copied: float, n: int = 400) -> torch.Tensor:
    """Samples of a model that is known to copy and to obey the rule at given rates."""
    copies, good = round(copied * n), round(valid * n)
    rows = torch.cat(
        [TRAIN[torch.arange(copies) % 40], RULE.sample(good - copies, step), cube_set(RULE, n - good, step)]
    )
    assert len(rows) == n
    return rows


def test_phases_and_stop_follow_a_known_model() -> None:
    monitor = tc.Monitor(rule=RULE, train=TRAIN)
    story = [(0.0, 0.0)] * 3 + [(0.95, 0.0)] * 5 + [(0.97, 0.3)] * 4
    decisions = [monitor.observe(100 * (i + 1), mixture(i, *rates)) for i, rates in enumerate(story)]
    assert [d.phase for d in decisions] == ["untrained"] * 5 + ["rule"] * 5 + ["memorizing"] * 2
    assert [d.stop for d in decisions] == [False] * 10 + [True] * 2
    assert (decisions[-1].clocks.rule.lower, decisions[-1].clocks.rule.upper) == (300, 400)
    assert (decisions[-1].clocks.memory.lower, decisions[-1].clocks.memory.upper) == (800, 900)
    low, high = decisions[-1].copy_rate_ci
    assert low < 0.3 < high and decisions[-1].copy_rate == pytest.approx(0.3, abs=0.02)
    assert decisions[-1].copy_chance == 40 / 2**12


def test_without_a_rule_it_watches_copies_alone() -> None:
    monitor = tc.Monitor(train=TRAIN.numpy())
    for step in (1, 2, 3):
        decision = monitor.observe(step, TRAIN.numpy()[:30])
    assert decision.stop and decision.phase == "memorizing" and decision.valid_rate is None
    assert decision.clocks.verdict == "unknown"  # without a rule, nobody knows whether the window was open


def test_repeated_training_rows_count_once_and_impossible_thresholds_are_refused_at_once() -> None:
    assert tc.Monitor(rule=RULE, train=torch.cat([TRAIN] * 5)).copy_chance == 40 / 2**12
    with pytest.raises(UserError, match="chance"):
        tc.Monitor(rule=RULE, train=tc.data.training_set(RULE, n=1000))


def test_a_refused_observation_leaves_the_monitor_as_it_was() -> None:
    monitor = tc.Monitor(rule=RULE, train=TRAIN)
    with pytest.raises(UserError, match="nothing was observed"):
        monitor.clocks()
    monitor.observe(2, TRAIN)
    for step in (2.5, -1, 2):
        with pytest.raises(UserError, match="step"):
            monitor.observe(step, TRAIN)  # type: ignore[arg-type]
    assert monitor.observe(3, TRAIN).step == 3


def test_what_does_not_fit_is_refused_at_once() -> None:
    for words in (
        {"rule": "parity"},
        {"rule": tc.rules.create("parity", length=26, group=2)},
        {"settings": {"sustain": 1}},
    ):
        with pytest.raises(UserError):
            tc.Monitor(train=TRAIN, **words)  # type: ignore[arg-type]


def test_observations_from_step_zero_on_work() -> None:
    monitor = tc.Monitor(train=TRAIN)
    for step in (0, 1, 2):
        decision = monitor.observe(step, TRAIN)
    assert decision.stop and decision.clocks.memory.status == "left-censored"


@pytest.mark.parametrize(
    ("samples", "word"),
    [
        (np.full((3, 24), np.nan), "integer"),
        (np.zeros((0, 24), dtype=int), "at least one row"),
        (np.zeros((3, 23), dtype=int), "24"),
        (np.zeros(24, dtype=int), "at least one row"),
    ],
)
def test_missing_samples_are_an_error_never_a_miss(samples: object, word: str) -> None:
    with pytest.raises(UserError, match=word):
        tc.Monitor(train=TRAIN).observe(1, samples)


def test_steps_must_increase() -> None:
    monitor = tc.Monitor(train=TRAIN)
    monitor.observe(5, TRAIN)
    with pytest.raises(UserError, match="not after the last one"):
        monitor.observe(5, TRAIN)


def test_exact_interval_covers() -> None:
    rng = np.random.default_rng(0)
    hits = rng.binomial(200, 0.04, size=2000)
    covered = np.mean([low <= 0.04 <= high for low, high in (exact_interval(int(h), 200) for h in hits)])
    assert covered >= 0.95
    assert exact_interval(0, 10)[0] == 0 and exact_interval(10, 10)[1] == 1
