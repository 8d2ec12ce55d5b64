"""Claim A14 on losses that split at known steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, rise, two_clocks_run
from simulated_views import write_view

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a14_losses import LossesFirst

LEVELS, ROWS, ORACLES = 10, 32, 3


def runs(folder: Path, cube: float, held_out: float, most: float = 1.0, seeds: int = 3) -> Records:
    """Runs with τ_rule near 1,300 and τ_mem near 15,000, whose losses depart, half of ``most``, at these steps."""
    found = []
    for seed in range(seeds):
        run = two_clocks_run(
            folder, "p1-dit-mini", {"data.n": 1024, "training.seed": seed}, rule=1_000, memory=20_000, last=60_000
        )
        steps, rng = log_steps(30, 60_000), np.random.default_rng(seed)
        train = np.ones((len(steps), LEVELS, ROWS))
        unseen = train + most * rise(steps, held_out)[:, None, None]
        loss = np.stack([train, unseen, unseen + most * rise(steps, cube)[:, None, None]], axis=1)
        measured = {
            "loss": loss + rng.normal(0, 0.002, size=loss.shape),
            "distance": np.zeros((len(steps), ORACLES, 3, LEVELS)),
        }
        constants = {
            "ideal": np.zeros((ORACLES, 3, LEVELS)),
            "floor": np.zeros((ORACLES, LEVELS)),
            "between": np.zeros((ORACLES, ORACLES, 3, LEVELS)),
        }
        found.append(write_view(run, "spectrum", steps, measured, constants, levels=LEVELS, rows=ROWS))
    return records(found)


@pytest.mark.parametrize(
    ("cube", "held_out", "most", "seeds", "verdict"),
    [
        (600, 6_000, 1.0, 3, "reproduced"),
        (600, 6_000, 1.0, 1, "seen once"),
        (3_000, 6_000, 1.0, 3, "refuted"),  # the rule is in the samples first
        (600, 40_000, 1.0, 3, "refuted"),  # copies are there first
        (600, 6_000, 0.1, 3, "refuted"),  # early, but never by 20%: the answer would depend on the departure
        (600, 18_000, 1.0, 3, "undecided"),  # 2% in time, 20% when copying begins
    ],
)
def test_losses(tmp_path: Path, cube: float, held_out: float, most: float, seeds: int, verdict: str) -> None:
    found = LossesFirst().judge(runs(tmp_path, cube, held_out, most, seeds))
    assert found.verdict == verdict, found


def test_runs_without_losses_do_not_count(tmp_path: Path) -> None:
    assert LossesFirst().judge(records([])).verdict == "not run"
    bare = two_clocks_run(tmp_path, "p1-dit-mini", {"data.n": 64}, rule=100, memory=2_000, last=30_000)
    assert LossesFirst().judge(records([bare])).verdict == "not run"
