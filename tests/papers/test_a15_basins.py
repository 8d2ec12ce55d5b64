"""Claim A15 on basins of known widths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, two_clocks_run
from simulated_views import write_view

from twoclocks.dissection.views.basin import Basin
from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a15_basins import Basins

ANCHORS, T = 16, Basin().t()
IDEAL = ((0.5, 0.5, 0.5), (0.9, 0.5, 0.5), (1.4, 0.9, 0.5))  # cube, rule, memory: (rule-breaking, valid, training)
Two = tuple[float, float]


def runs(folder: Path, widths: Sequence[Two], seeds: int = 3, scatter: float = 0.03) -> Records:
    """Runs with τ_rule near 1,300 and τ_mem near 15,000, and the widths before, between and after these steps."""
    found = []
    for seed in range(seeds):
        run = two_clocks_run(
            folder, "p1-dit-mini", {"data.n": 1024, "training.seed": seed}, rule=1_000, memory=20_000, last=60_000
        )
        steps, rng = log_steps(30, 60_000), np.random.default_rng(seed)
        phase = np.digitize(steps, [1_000, 16_000])
        towards = np.array([[*widths[k], 0.5] for k in phase])  # (steps, lines)
        reach = towards[:, None, :, None] + rng.normal(0, scatter, size=(len(steps), 2, 3, ANCHORS))
        match = (reach[..., None] > T).astype(np.uint8)  # (steps, σ, lines, anchors, t)
        measured = {"match": match, "hamming": 1 - match, "l2": 1.0 - match}
        ideal = np.array(IDEAL)[:, None, :, None, None] > T
        constants = {"match": np.broadcast_to(ideal, (3, 2, 3, ANCHORS, len(T))).astype(np.uint8)}
        found.append(write_view(run, "basin", steps, measured, constants))
    return records(found)


AS_PAPER = ((0.5, 0.5), (0.9, 0.5), (1.2, 0.8))


@pytest.mark.parametrize(
    ("widths", "seeds", "scatter", "verdict"),
    [
        (AS_PAPER, 3, 0.03, "reproduced"),
        (AS_PAPER, 1, 0.03, "seen once"),
        (((0.9, 0.5), (0.9, 0.5), (1.2, 0.8)), 3, 0.03, "refuted"),  # not symmetric at first
        (((0.5, 0.5), (0.5, 0.5), (1.2, 0.8)), 3, 0.03, "refuted"),  # rule-valid basins do not grow
        (((0.5, 0.5), (0.9, 0.8), (1.2, 0.8)), 3, 0.03, "refuted"),  # the training sample's grows with the rule
        (((0.5, 0.5), (0.9, 0.5), (0.9, 0.5)), 3, 0.03, "refuted"),  # it does not grow at all
        (AS_PAPER, 3, 0.6, "undecided"),  # bands too wide
    ],
)
def test_widths(tmp_path: Path, widths: Sequence[Two], seeds: int, scatter: float, verdict: str) -> None:
    found = Basins().judge(runs(tmp_path, widths, seeds, scatter))
    assert found.verdict == verdict, found


def test_runs_without_basins_do_not_count(tmp_path: Path) -> None:
    assert Basins().judge(records([])).verdict == "not run"
    bare = two_clocks_run(tmp_path, "p1-dit-mini", {"data.n": 64}, rule=100, memory=2_000, last=30_000)
    assert Basins().judge(records([bare])).verdict == "not run"
