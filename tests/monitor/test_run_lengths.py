"""Run lengths of samples beside those of held-out texts, from the monitor that counts the copies."""

from __future__ import annotations

import numpy as np
import pytest
from test_suffix_array import longest_common_run

import twoclocks as tc
from twoclocks.core.errors import UserError
from twoclocks.monitor import Verbatim


def test_lengths_and_quantiles_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    train, held_out, samples = ([rng.integers(0, 4, rng.integers(8, 30)).tolist() for _ in range(40)] for _ in range(3))
    samples[:5] = [[9, *row[:7]] for row in train[:5]]
    found = tc.Monitor(train, held_out=held_out, copies=Verbatim(7)).run_lengths(samples, held_out)
    for texts, lengths in ((samples, found.samples), (held_out, found.held_out)):
        expected = [max(longest_common_run(text, row) for row in train) for text in texts]
        assert lengths.tolist() == expected
        in_order = sorted(expected)
        at = {level: in_order[int(np.ceil(level * 40)) - 1] for level in (0.25, 0.5, 1.0)}
        which = 0 if texts is samples else 1
        assert {level: pair[which] for level, pair in found.quantiles((0.25, 0.5, 1.0)).items()} == at
    assert found.copied == (np.mean(found.samples >= 7), np.mean(found.held_out >= 7)) and found.copied[0] > 0.1
    assert found.longer_than_held_out == sum(found.samples > max(found.held_out)) / 40


def test_the_share_of_long_runs_is_the_copy_rate_of_the_monitor() -> None:
    words = [f"w{i}" for i in range(400)]
    train = [" ".join(words[i : i + 40]) for i in range(0, 400, 40)]
    samples = [" ".join([*words[40 * i : 40 * i + n], "x"]) for i, n in enumerate((3, 30, 10, 40, 9))]
    monitor = tc.Monitor(train, copies=Verbatim(10))
    found = monitor.run_lengths(samples, ["w1 w2 y", "w8"])
    assert found.samples.tolist() == [3, 30, 10, 40, 9] and found.held_out.tolist() == [2, 1]
    assert found.copied[0] == monitor.observe(1, samples).copy_rate == 0.6 and found.longer_than_held_out == 1
    assert found.as_dict()["run_50%"] == 10 and found.as_dict()["run_100%_held_out"] == 2


def test_what_is_refused() -> None:
    monitor = tc.Monitor([[0, 1, 1], [1, 0, 1]])
    with pytest.raises(UserError, match=r"run_lengths: .* use Monitor\(copies=Verbatim"):
        monitor.run_lengths([[0, 1, 1]], [[0, 1, 1]])
    texts = tc.Monitor(["a b c"], copies=Verbatim(2))
    with pytest.raises(UserError, match="held_out"):
        texts.run_lengths(["a b"], [])
    with pytest.raises(UserError, match="levels"):
        texts.run_lengths(["a b"], ["b c"]).quantiles((2,))
