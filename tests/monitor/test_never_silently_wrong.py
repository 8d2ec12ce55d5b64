"""Answers that used to be wrong without a word: each test names one."""

from __future__ import annotations

from pathlib import Path

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
    with pytest.raises(UserError, match="returned uint8 of shape"):
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


# Mistakes of a caller that used to give wrong answers without a word.


def warned(caplog: pytest.LogCaptureFixture) -> str:
    text = " ".join(caplog.messages)
    caplog.clear()
    return text


def test_held_out_rows_that_were_trained_on_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    train, held_out = pictures(200, seed=0), pictures(600, seed=1)
    held_out[:6] = train[:6]
    monitor = tc.Monitor(train, held_out=held_out)
    assert "6 of 600 rows are also in the training set" in warned(caplog)
    assert monitor.observe(1, noisy(train, 2)).copy_rate > 0.95
    with pytest.raises(UserError, match="every row is also in the training set"):
        tc.Monitor(train, held_out=train[:50])
    near = held_out.copy()
    near[:60] = noisy(train[:60], 3, 1e-4)  # the same images, stored with another rounding
    tc.Monitor(train, held_out=near)
    assert "are some of them training rows?" in warned(caplog)


def test_few_held_out_samples_are_warned_of_and_the_reason_names_the_level(caplog: pytest.LogCaptureFixture) -> None:
    train = pictures(100, seed=0)
    monitor = tc.Monitor(train, held_out=pictures(8, seed=1))
    assert "copying is only confirmed above" in warned(caplog)
    for step in (1, 2, 3):
        decision = monitor.observe(step, np.concatenate([noisy(train, step)[:60], pictures(40, seed=step)]))
    assert "copying is confirmed above 0." in decision.reason and decision.forecast is None


def test_axes_in_another_order_are_refused() -> None:
    images = np.random.default_rng(0).normal(size=(20, 3, 8, 8))
    monitor = tc.Monitor(images)
    with pytest.raises(UserError, match=r"shape \(8, 8, 3\), the training set has \(3, 8, 8\)"):
        monitor.observe(1, np.moveaxis(images, 1, -1))
    assert monitor.observe(1, images.reshape(20, -1)).copy_rate == 1


def test_another_scale_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    images = 127.5 * (1 + pictures(50, seed=0))
    monitor = tc.Monitor(images)
    warned(caplog)
    monitor.observe(1, images / 127.5 - 1)
    assert "give both on one scale" in warned(caplog)
    monitor.observe(2, images / 127.5 - 1)
    assert "scale" not in warned(caplog)  # once is enough


def test_too_few_samples_per_look_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    tc.Monitor(TRAIN).observe(1, TRAIN[:4])
    assert "4 per look are too few" in warned(caplog)
    tc.Monitor(TRAIN, RULE, policy="rule").observe(1, TRAIN[:20])
    assert "policy rule could not be certain" in warned(caplog)
    tc.Monitor(TRAIN).observe(1, RULE.sample(200, 1))
    assert not warned(caplog)
    careful = tc.Monitor(TRAIN, policy="caution")
    careful.observe(1, RULE.sample(36, 1))
    decision = careful.observe(2, RULE.sample(36, 2))
    assert (
        decision.stop and "36 samples are too few at look 2" in decision.reason and "give at least" in decision.reason
    )


def test_a_collapsed_model_is_told_from_one_that_copies(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, 32))
    points[0] *= 0.3  # one faint row, to which the mean is near
    monitor = tc.Monitor(points[:300], held_out=points[300:])
    monitor.observe(1, 0.05 * rng.normal(size=(400, 32)))
    assert "matched with training row 0" in warned(caplog)
    monitor.observe(2, points[:300] + 0.02 * rng.normal(size=(300, 32)))
    assert "matched with" not in warned(caplog)


def test_large_families_and_twins_in_small_sets_are_found() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(1, 64))
    family = np.concatenate([base + 0.02 * rng.normal(size=(100, 64)), rng.normal(size=(500, 64))])
    monitor = tc.Monitor(family, held_out=rng.normal(size=(800, 64)))
    assert monitor.observe(1, base + 0.02 * rng.normal(size=(300, 64))).copy_rate > 0.95
    two = rng.normal(size=(2, 784))
    twins = tc.Monitor(np.concatenate([two, two + 0.05 * rng.normal(size=(2, 784))]))
    assert twins.observe(1, np.repeat(two, 20, 0) + 0.05 * rng.normal(size=(40, 784))).copy_rate == 1


def test_texts_that_cannot_be_copied_and_padding_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    words = [" ".join(f"w{i * 7 % 50 + k}" for i in range(n)) for k, n in enumerate([20, 20, 60])]
    tc.Monitor(words, held_out=words[:1])
    assert "2 of 3 texts have fewer than 50 tokens" in warned(caplog)
    padded = np.concatenate([np.arange(1, 61).reshape(3, 20), np.zeros((3, 55), dtype=int)], 1)
    tc.Monitor(padded, copies="verbatim")
    assert "if it is padding, give Verbatim(padding=" in warned(caplog)
    tc.Monitor(padded, copies=tc.monitor.Verbatim(15, padding=0))
    assert "padding" not in warned(caplog)


def test_functions_of_the_user_get_integers_that_do_not_overflow() -> None:
    train = np.random.default_rng(0).integers(0, 10, (50, 6))
    near = train.copy()
    near[:, 0] = abs(near[:, 0] - 1)

    def city_block(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = np.abs(a[:, None] - b[None]).sum(-1)
        a[:] = 0  # whatever it does to its arguments
        return found

    assert tc.Monitor(train, copies=tc.monitor.Distance(city_block, 2.5)).observe(1, near).copy_rate == 1
    assert near.any() and tc.Monitor([[2**60, -1], [5, -1]]).train.kind == "integers"


def test_validity_that_is_not_true_or_false_is_refused() -> None:
    for value in (np.nan, 0.2, -1.0, "False"):
        monitor = tc.Monitor(TRAIN, valid=lambda x, value=value: np.full(len(x), value))
        with pytest.raises(UserError, match="valid: it returned"):
            monitor.observe(1, TRAIN)
    assert tc.Monitor(TRAIN, valid=lambda x: torch.ones(len(x))).observe(1, TRAIN).valid_rate == 1


def test_a_state_of_other_symmetries_is_refused() -> None:
    images = pictures(20, seed=0)
    flipped, plain = tc.Monitor(images, symmetries=["flip"]), tc.Monitor(images)
    flipped.observe(1, images)
    with pytest.raises(UserError, match="its symmetries"):
        plain.load_state(flipped.state())


def test_a_gallery_shows_what_was_matched_whatever_happens_to_the_samples_later(tmp_path: Path) -> None:
    images = torch.tensor(pictures(20, seed=0))
    monitor = tc.Monitor(images.clone())
    samples = images.clone()
    monitor.observe(1, samples)
    samples.zero_()
    assert np.asarray(monitor.gallery().axes[0].images[0].get_array()).std() > 0
    latents = torch.randn(20, 16, 8, 8)
    other = tc.Monitor(latents)
    other.observe(1, latents)
    assert other.gallery().axes[0].images[0].get_array().shape == (16, 64)
    counted = tc.Monitor(TRAIN)
    for step in (1, 2, 3):
        counted.observe_counts(Look(step, 0, 200, 200))
    counted.report(tmp_path / "page.html")
    assert "Monitor: learning at step 3" in (tmp_path / "page.html").read_text(encoding="utf-8")
