"""Claim A16 on losses by position, with the exact floors of a real training set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, two_clocks_run
from simulated_views import write_view

from twoclocks import rules
from twoclocks.clocks.onset import Onset
from twoclocks.data.sets import training_set
from twoclocks.oracles.prefix import listed_token_loss
from twoclocks.papers.intervals import Interval
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a16_positions import LastBitsFirst, first_of, order_of

RULE, ROWS, LN2 = rules.create("parity", length=36, group=3), 64, math.log(2)
ENDS = np.arange(2, 36, 3)


def floors(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact losses of the rule and of a perfect memory of n rows."""
    train = training_set(RULE, n, 0)
    rule = np.where(np.isin(np.arange(36), ENDS), 0.0, LN2)
    return rule, listed_token_loss(train, train[:ROWS], 2).mean(dim=0).numpy()


def runs(
    folder: Path,
    learned: float,
    split_at: float,
    first: int = 0,
    n: int = 1024,
    seeds: int = 3,
    noise: float = 0.005,
    share: float = 0.6,
    beyond: float = 0.0,
) -> Records:
    """Runs with τ_mem near 1,500: ends of groups are learned, and positions from ``first`` on split, at these steps.

    By then the training loss has fallen by a share of what a perfect memory of this training set gains, and ``beyond``.
    """
    rule, memory = floors(n)
    found = []
    for seed in range(seeds):
        change = {"data.n": n, "training.seed": seed}
        run = two_clocks_run(folder, "p1-gpt-mini", change, rule=300, memory=2_000, last=12_000)
        steps, rng = log_steps(10, 12_000), np.random.default_rng(seed)
        ends, splits = rise(steps, learned)[:, None], rise(steps, split_at)[:, None]
        place = np.arange(36)
        unseen = np.where(np.isin(place, ENDS), LN2 * (1 - ends), LN2)
        gain = share * np.maximum(rule - memory, 0) + beyond
        drop = np.where((place >= first) & ~np.isin(place, ENDS), gain, 0.0)
        train = unseen - splits * drop
        loss = np.stack([train, unseen, np.full_like(unseen, LN2)], axis=1)[:, :, None]
        loss = loss + rng.normal(0, noise, size=(len(steps), 3, ROWS, 36))
        constants = {"rule_floor": rule, "memory_floor": memory, "determined": ENDS}
        found.append(write_view(run, "positions", steps, {"loss": loss}, constants, rows=ROWS))
    return records(found)


@pytest.mark.parametrize(
    ("learned", "split_at", "more", "verdict"),
    [
        (200, 1_000, {}, "reproduced"),  # 60% of what a perfect memory gains, at every position
        (200, 1_000, {"share": 1.0, "n": 4096}, "reproduced"),
        (200, 1_000, {"seeds": 1}, "seen once"),
        (2_500, 1_000, {}, "refuted"),  # memory comes before the rule
        (200, 1_000, {"beyond": 0.2}, "refuted"),  # all positions split, also where memory knows nothing
        (200, 1_000, {"first": 24}, "refuted"),  # only the last third splits, though memory knows more
        (200, 6_000, {}, "refuted"),  # nothing has split when copying begins
        (600, 800, {}, "undecided"),  # at the same time
    ],
)
def test_positions(tmp_path: Path, learned: float, split_at: float, more: dict[str, Any], verdict: str) -> None:
    found = LastBitsFirst().judge(runs(tmp_path, learned, split_at, **more))
    assert found.verdict == verdict, found


def test_the_first_split_may_be_any_that_may_have_come_first() -> None:
    """Between the smallest lower and the smallest upper end, also of positions that were never seen to split."""

    def onset(low: float, high: float) -> Onset:
        return Onset(low, high, "observed" if math.isfinite(high) else "right-censored")

    for splits, ends in (
        ([onset(900, 1_000), onset(100, 1_100)], (100, 1_000)),
        ([onset(900, 1_000), onset(50, math.inf)], (50, 1_000)),
        ([onset(900, math.inf), onset(700, math.inf)], (700, math.inf)),
    ):
        assert first_of(splits) == Interval(*ends)


def test_losses_with_much_noise_refute_nothing(tmp_path: Path) -> None:
    """Where memory is worth little, noise hides the split: that is no evidence against it."""
    found = LastBitsFirst().judge(runs(tmp_path, 200, 1_000, noise=0.4))
    assert found.verdict == "undecided" and "undecided) of" in found.measured, found


def test_the_border_moves_with_the_training_set(tmp_path: Path) -> None:
    """Late begins about where the free bits of a prefix tell N rows apart: two of every three positions are free."""
    borders = []
    for n in (64, 1024):
        order = order_of(runs(tmp_path, 200, 1_000, n=n, seeds=1)[0])
        assert order is not None
        free_before = np.setdiff1d(np.arange(order.late[0]), ENDS)
        assert math.log2(n) - 5 <= len(free_before) <= math.log2(n)
        borders.append(order.late[0])
    assert borders[0] < borders[1]


def test_runs_without_losses_by_position_do_not_count(tmp_path: Path) -> None:
    assert LastBitsFirst().judge(records([])).verdict == "not run"
    bare = two_clocks_run(tmp_path, "p1-gpt-mini", {"data.n": 64}, rule=100, memory=2_000, last=30_000)
    assert LastBitsFirst().judge(records([bare])).verdict == "not run"
