"""The chance level of copies and the ratio's threshold, from held-out samples, by simulation with known truth."""

from __future__ import annotations

import numpy as np
import pytest

import twoclocks as tc
from twoclocks.clocks import Chance, ClockSettings
from twoclocks.clocks.settings import Policy
from twoclocks.monitor import Look, Ratio
from twoclocks.monitor.decision import Judgement
from twoclocks.monitor.record import Record


def clouds(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 12))


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng, truth = np.random.default_rng(0), 0.03
    found = [Chance.estimated(int(rng.binomial(300, truth)), 300, 0.75, "300") for _ in range(600)]
    low, high = (np.mean([f(one) for one in found]) for f in (lambda c: truth < c.low, lambda c: truth > c.high))
    assert low <= 0.05 + 0.02 and high <= 0.05 + 0.02  # a fifth of 25% on each side


def test_the_ratio_is_calibrated_on_one_half_and_its_chance_measured_on_the_other() -> None:
    train, held_out = clouds(200, 0), clouds(2000, 1)
    monitor = tc.Monitor(train, held_out=held_out)
    assert isinstance(monitor.criterion, Ratio) and monitor.criterion.below is not None
    assert 0.33 < monitor.criterion.below < 0.9
    assert monitor.chance is not None and "1000 held-out samples" in str(monitor.chance)
    new = monitor.observe(1, clouds(20_000, 2)).copy_rate
    assert monitor.chance.low <= new <= monitor.chance.high and new < 0.03
    copies = train + 0.25 * clouds(200, 3)
    assert monitor.observe(2, copies).copy_rate > tc.Monitor(train, copies="ratio").observe(2, copies).copy_rate + 0.2
    assert tc.Monitor(train, copies="ratio", held_out=held_out).criterion == Ratio(1 / 3)


def test_few_held_out_samples_give_a_wide_interval_that_enters_the_bounds() -> None:
    settings = ClockSettings(memory_threshold=0.02, above_chance=True, sustain=1)
    looks = [Look(1, 60, 1000)]
    few, many = (Chance.estimated(n // 100, n, 0.95, str(n)) for n in (100, 100_000))
    stops = [Judgement("memory", settings, chance).decide(series_of(looks)).stop for chance in (few, many)]
    assert stops == [False, True]
    levels = settings.memory_levels(few)
    assert levels.exclude < levels.nominal < levels.confirm == pytest.approx(few.high + 0.02)
    # Without above_chance the rate must still exceed what chance may give.
    plain = ClockSettings(memory_threshold=0.02, sustain=1)
    assert not Judgement("memory", plain, few).decide(series_of(looks)).stop
    assert Judgement("memory", plain, None).decide(series_of(looks)).stop


def series_of(looks: list[Look]) -> tc.clocks.Series:
    record = Record(with_validity=False)
    for look in looks:
        record.add(look)
    return record.series("copies")


def first_stop(
    policy: Policy, settings: ClockSettings, chance: Chance | None, counts: np.ndarray, n: int
) -> int | None:
    looks = [Look(i + 1, int(count), n) for i, count in enumerate(counts)]
    for last in range(1, len(looks) + 1):
        if Judgement(policy, settings, chance).decide(series_of(looks[:last])).stop:
            return last - 1
    return None


@pytest.mark.parametrize("policy", ["memory", "caution"])
def test_policies_keep_their_error_rates_with_an_estimated_chance_level(policy: Policy) -> None:
    """True chance 4%, estimated from 400 samples; threshold chance + 4%; 12 looks of 1,500 samples, 120 simulated runs.

    memory: it must not stop while the rate is at chance + 4% (the worst case without copying). caution: it must stop by
    the look at which the rate first exceeds that.
    """
    rng, truth, n = np.random.default_rng(5), 0.04, 1500
    settings = ClockSettings(memory_threshold=0.04, above_chance=True, sustain=1)
    still = np.full(12, truth + 0.04)
    rising = truth + np.linspace(0, 0.08, 12)
    wrong = 0
    for _ in range(120):
        chance = Chance.estimated(int(rng.binomial(400, truth)), 400, 0.95, "400")
        if policy == "memory":
            wrong += first_stop(policy, settings, chance, rng.binomial(n, still), n) is not None
        else:
            above = int(np.argmax(rising > truth + 0.04))
            stop = first_stop(policy, settings, chance, rng.binomial(n, rising), n)
            wrong += stop is None or stop > above
    assert wrong <= 12  # 5% of 120 are 6; 12 would be passed with probability 1%
    certain = [
        first_stop(policy, settings, Chance.exact(truth), rng.binomial(n, np.r_[np.full(6, truth), np.full(6, 0.5)]), n)
        for _ in range(20)
    ]
    assert all(stop is not None and stop <= 6 for stop in certain)  # and real copying is seen at once
