"""Answers that used to be wrong without a word: each test names one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.clocks import ClockSettings
from twoclocks.core.errors import UserError
from twoclocks.monitor import Exact, Hamming, Look, Ratio

RULE = tc.rules.create("parity", length=24, group=2)
TRAIN = tc.data.training_set(RULE, n=40, seed=0)


def pictures(n: int, seed: int, side: int = 8) -> np.ndarray:
    """Smooth random images in [−1, 1], far apart from each other."""
    rng = np.random.default_rng(seed)
    waves = rng.normal(size=(n, 4, 4))
    grid = np.linspace(0, 1, side)
    basis = np.cos(np.pi * np.outer(np.arange(4), grid))
    return np.tanh(np.einsum("nab,ax,by->nxy", waves, basis, basis)).astype(np.float32)


def noisy(images: np.ndarray, seed: int, scale: float = 0.05) -> np.ndarray:
    return (images + scale * np.random.default_rng(seed).normal(size=images.shape)).astype(np.float32)


def test_a_run_that_ends_in_copies_is_not_called_open() -> None:
    monitor = tc.Monitor(TRAIN, RULE)
    rates = [0.0] * 5 + [0.62]
    for number, rate in enumerate(rates):
        decision = monitor.observe_counts(Look(100 * (number + 1), round(2000 * rate), 2000, 1990))
    assert decision.phase == "copying suspected" and not decision.stop
    assert decision.clocks.verdict == "suspected" and decision.clocks.suspected == 600
    assert decision.clocks.window == (100, 500)
    assert "1 of 3 looks in a row" in decision.reason and "step 600" in decision.reason


def test_equality_of_floats_is_refused_and_auto_finds_noisy_copies() -> None:
    train = pictures(60, seed=0)
    for refused in ("exact", Exact(), "hamming", Hamming(2)):
        with pytest.raises(UserError, match="floats=True"):
            tc.Monitor(train, copies=refused)
    assert tc.Monitor(train, copies=Exact(floats=True)).observe(1, noisy(train, 1)).copy_rate == 0
    assert tc.Monitor(train).observe(1, noisy(train, 1)).copy_rate == 1
    assert isinstance(tc.Monitor(train).criterion, Ratio) and isinstance(tc.Monitor(TRAIN).criterion, Exact)


def test_pixels_as_integers_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    pixels = (127 + 100 * pictures(30, seed=0)).astype(np.uint8)
    with caplog.at_level("WARNING", logger="twoclocks"):
        tc.Monitor(pixels)
    assert "copies='ratio'" in caplog.text
    caplog.clear()
    with caplog.at_level("WARNING", logger="twoclocks"):
        tc.Monitor(TRAIN)
    assert not caplog.text


def test_twins_in_the_training_set_do_not_hide_copies(caplog: pytest.LogCaptureFixture) -> None:
    """200 images, each with a noisy twin: the second neighbour of a copy is the twin, unless twins are one row."""
    images = pictures(200, seed=0)
    train = np.concatenate([images, noisy(images, 1)])
    with caplog.at_level("WARNING", logger="twoclocks"):
        monitor = tc.Monitor(train)
    assert "400 of 400 rows have near-duplicates" in caplog.text
    decision = monitor.observe(1, noisy(images, 2))
    assert decision.copy_rate > 0.99 and decision.copies is not None
    assert np.array_equal(decision.copies.rows % 200, decision.copies.samples)
    assert monitor.observe(2, pictures(200, seed=9)).copy_rate < 0.02
    assert tc.Monitor(images).train.groups.max() + 1 == 200  # nothing is grouped where there are no twins


def test_the_mean_of_the_next_rows_does_not_need_groups() -> None:
    images = pictures(60, seed=0)
    monitor = tc.Monitor(images, copies=Ratio(next_rows=5))
    assert monitor.observe(1, noisy(images, 2)).copy_rate == 1 and "mean of the 5 next" in monitor.criterion.name
    assert monitor.observe(2, pictures(60, seed=5)).copy_rate < 0.05


def test_mirror_images_are_copies_where_the_flip_is_declared() -> None:
    images = pictures(80, seed=0)
    mirrored = noisy(images[:, :, ::-1], 1)
    assert tc.Monitor(images).observe(1, mirrored).copy_rate < 0.05
    decision = tc.Monitor(images, symmetries=["flip"]).observe(1, mirrored)
    assert decision.copy_rate == 1 and decision.copies is not None
    assert np.array_equal(decision.copies.rows, decision.copies.samples)
    moved = noisy(np.roll(images, 1, axis=2), 1, 0.01)
    moved[:, :, 0] = moved[:, :, 1]
    assert tc.Monitor(images, symmetries=["crop"]).observe(1, moved).copy_rate > 0.95
    own = tc.Monitor(images, symmetries=[lambda x: -x])
    assert own.observe(1, noisy(-images, 1)).copy_rate == 1
    # A training set that holds mirror images itself: an image and its mirror image are one row.
    both = tc.Monitor(np.concatenate([images, images[:, :, ::-1]]), symmetries=["flip"])
    assert both.observe(1, noisy(images, 1)).copy_rate == 1


def test_symmetries_that_cannot_be_applied_are_refused() -> None:
    for given, word in ((["turn"], "unknown"), ("flip", "not a list"), (["flip"], "no images"), ([3], "function")):
        with pytest.raises(UserError, match=word):
            tc.Monitor(TRAIN, symmetries=given)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="returned the shape"):
        tc.Monitor(TRAIN, symmetries=[lambda x: x[:, :3]])
    with pytest.raises(UserError, match="not square"):
        tc.Monitor(np.zeros((4, 8, 6)) + np.arange(4)[:, None, None], symmetries=["rotate"])
    grids = np.random.default_rng(0).integers(0, 2, (20, 5, 5))
    turned = tc.Monitor(grids, symmetries=["rotate", "flip", "flip_vertical"])
    for times, samples in enumerate((np.rot90(grids, 1, (1, 2)), np.rot90(grids, 2, (1, 2)), grids[:, ::-1])):
        assert turned.observe(times, samples).copy_rate == 1
    assert tc.Monitor(grids).observe(1, np.rot90(grids, 1, (1, 2))).copy_rate == 0


def test_phases_are_known_without_a_rule() -> None:
    monitor = tc.Monitor(TRAIN)
    phases = [
        monitor.observe_counts(Look(step, copied, 1000)).phase for step, copied in enumerate([0, 0, 300, 300, 300])
    ]
    assert phases == ["learning", "learning", "copying suspected", "copying suspected", "copying"]


def test_forecasts_never_name_a_step_in_the_past() -> None:
    rng = np.random.default_rng(0)
    for seed in range(6):
        monitor = tc.Monitor(TRAIN, settings=ClockSettings(sustain=4))
        for step in range(100, 3000, 150):
            rate = 1 / (1 + 9 * (step / 1500) ** -3.0)
            decision = monitor.observe_counts(Look(step, int(rng.binomial(300, rate)), 300))
            if decision.forecast is not None:
                assert step <= decision.forecast.low <= decision.forecast.median <= decision.forecast.high, seed
    assert decision.phase == "copying" and decision.forecast is None


def test_the_reason_says_how_long_the_policy_waited() -> None:
    monitor = tc.Monitor(TRAIN, settings=ClockSettings(sustain=3))
    reasons = [monitor.observe_counts(Look(100 * i, 900 * (i > 2), 1000)).reason for i in range(1, 7)]
    assert "1 of 3 looks" in reasons[2] and "2 of 3 looks" in reasons[3]
    assert "since step 300, waited 2 looks for 3 in a row (clocks.sustain)" in reasons[4]
    assert "confirmed 1 look ago" in reasons[5]


def test_a_learned_rule_is_no_change_of_copying() -> None:
    """A valid sample is a copy by chance with 10% here: copies rise as the rule is learned, and nothing is copied."""
    train = tc.data.training_set(RULE, n=400, seed=0)
    monitor = tc.Monitor(train, RULE, ClockSettings(memory_threshold=0.3))
    for number, part in enumerate([0.0] * 5 + [1.0] * 6):
        valid = int(2000 * part)
        samples = torch.cat([RULE.sample(valid, number), torch.randint(0, 2, (2000 - valid, 24))])
        monitor.observe(number + 1, samples)
    changes = monitor.clocks().changes
    assert changes["rule"].seen and not changes["memory"].seen


def test_validity_can_be_any_function() -> None:
    images = pictures(40, seed=0)

    def bright(samples: np.ndarray) -> np.ndarray:
        return samples.mean((1, 2)) > 0

    monitor = tc.Monitor(images, valid=bright, policy="rule")
    for step in (1, 2, 3):
        decision = monitor.observe(step, 1 + pictures(100, seed=step))
    assert decision.valid_rate == 1 and decision.stop and decision.phase == "rule learned"
    with pytest.raises(UserError, match="rule or valid, not both"):
        tc.Monitor(TRAIN, RULE, valid=bright)
    with pytest.raises(UserError, match="not a function"):
        tc.Monitor(TRAIN, valid="bright")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="one value each"):
        tc.Monitor(TRAIN, valid=lambda x: True).observe(1, TRAIN)
