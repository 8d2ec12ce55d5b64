"""The short form of every campaign; `make test-crash` runs them whole."""

from __future__ import annotations

from pathlib import Path

import campaigns
import power
import pytest
import sweep_campaigns
from warm import WarmCommand

pytestmark = pytest.mark.slow


def test_kill_at_disk_calls(tmp_path: Path) -> None:
    tally = campaigns.kills_at_boundaries(tmp_path, every=11)
    assert tally.good, tally


def test_three_kills_in_a_row(tmp_path: Path) -> None:
    tally = campaigns.kills_at_boundaries(tmp_path, every=41, in_a_row=3)
    assert tally.good, tally


def test_kill_at_random_moments(tmp_path: Path) -> None:
    tally = campaigns.kills_at_random(tmp_path, kills=6)
    assert tally.good, tally


@pytest.mark.parametrize(
    ("kind", "count"), [("bit flipped", 24), ("file truncated", 24), ("page zeroed", 8), ("file deleted", 10)]
)
def test_damage_is_never_used(tmp_path: Path, kind: str, count: int) -> None:
    tally = campaigns.damaged(tmp_path, kind, count)
    assert tally.good, tally


def test_disk_errors_are_clear_and_lose_nothing(tmp_path: Path) -> None:
    for tally in campaigns.disk_errors(tmp_path, every=11):
        assert tally.good, tally


def test_workers_of_a_sweep_are_killed(tmp_path: Path) -> None:
    tally = sweep_campaigns.workers_killed(tmp_path, workers=4, cells=16)
    assert tally.good, tally


def test_a_sweep_is_killed(tmp_path: Path) -> None:
    tally = sweep_campaigns.sweeps_killed(tmp_path, kills=2, cells=3, steps=20, start=WarmCommand, import_seconds=0)
    assert tally.good, tally


def test_power_cuts(tmp_path: Path) -> None:
    tally = power.power_cuts(tmp_path, every=5)
    assert tally.good, tally


def test_what_a_run_counts_on_is_on_disk(tmp_path: Path) -> None:
    assert power.lost_rows(tmp_path) == 0
