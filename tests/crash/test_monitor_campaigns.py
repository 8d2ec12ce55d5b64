"""Short forms of the campaigns against the monitor, and the odd inputs that were once answered wrongly."""

from __future__ import annotations

from pathlib import Path

import monitor_campaigns
import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.core.errors import UserError
from twoclocks.monitor import Exact, PerceptualHash, Verbatim


def test_odd_calls_work_or_say_what_to_change(work: Path) -> None:
    tally = monitor_campaigns.odd_monitor_calls(work, count=300)
    assert tally.good, tally


def test_no_flipped_bit_and_no_lost_end_of_a_state_is_used(tmp_path: Path) -> None:
    tally = monitor_campaigns.monitor_state_flips(tmp_path)
    assert tally.good and tally.tried > 5000, tally


def test_forged_states_are_refused(tmp_path: Path) -> None:
    tally = monitor_campaigns.forged_monitor_states(tmp_path)
    assert tally.good and tally.detected > 10 * tally.equal, tally


def test_a_list_of_tensors_is_read_like_one_tensor() -> None:
    train = torch.randn(8, 5)
    for rows in ([row.clone().requires_grad_() for row in train], list(train.bfloat16())):
        assert tc.Monitor(train).observe(1, rows).copy_rate == 1
        assert tc.Monitor(rows).observe(1, train).copy_rate == 1


def test_equal_floats_of_two_dtypes_are_not_called_new() -> None:
    train = torch.randn(8, 5)
    assert tc.Monitor(train, copies=Exact(floats=True)).observe(1, train.half()).copy_rate == 1
    for ours, theirs in ((train, train.bfloat16()), (train.bfloat16(), train)):
        with pytest.raises(UserError, match="give both as one dtype"):
            tc.Monitor(ours, copies=Exact(floats=True)).observe(1, theirs)
    both = train.bfloat16()
    assert tc.Monitor(both, copies=Exact(floats=True)).observe(1, both).copy_rate == 1


def test_rows_of_token_ids_may_be_empty() -> None:
    monitor = tc.Monitor([[], [1, 2, 3, 1, 2, 3], [4, 5]], copies=Verbatim(2))
    assert monitor.observe(1, [[1, 2], [], [9, 9]]).copies.samples.tolist() == [0]


def test_both_of_two_channels_count_for_the_perceptual_hash() -> None:
    rng = np.random.default_rng(0)
    images, others = rng.normal(size=(2, 6, 32, 32, 2))
    assert tc.Monitor(images, copies=PerceptualHash()).observe(1, images).copy_rate == 1
    others[..., 0] = images[..., 0]  # only the second channel differs
    assert tc.Monitor(images, copies=PerceptualHash(4)).observe(1, others).copy_rate == 0


def test_the_gallery_shows_the_form_that_was_matched() -> None:
    images = np.random.default_rng(0).normal(size=(6, 8, 8))
    monitor = tc.Monitor(images, symmetries=["flip"])
    assert monitor.observe(1, images[:, :, ::-1]).copy_rate == 1
    for pair in monitor._gallery.pairs:
        assert np.array_equal(pair.sample, pair.original) and np.array_equal(images[pair.row][:, ::-1], pair.original)
    assert "nearest to the sample" in monitor._gallery.sentence
