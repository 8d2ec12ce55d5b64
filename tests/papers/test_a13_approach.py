"""Claim A13 on samples whose distance to the training set falls at a known step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, rise, two_clocks_run
from simulated_views import write_view

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a13_approach import Approaching

CHANCE, NOISES = 8.0, 1024


def runs(folder: Path, falls_at: float, seeds: int = 3, sharpness: float = 8.0, n: int = 1024) -> Records:
    """Runs with τ_mem near step 15,000 whose new samples come nearer by two bits, half of it at ``falls_at``."""
    found = []
    for seed in range(seeds):
        run = two_clocks_run(
            folder, "p1-dit-mini", {"data.n": n, "training.seed": seed}, rule=100, memory=20_000, last=60_000
        )
        steps, rng = log_steps(30, 60_000), np.random.default_rng(seed)
        nearer = 2 * rise(steps, falls_at, sharpness) if np.isfinite(falls_at) else np.zeros(len(steps))
        distance = np.rint(rng.normal((CHANCE - nearer)[:, None], 0.8, size=(len(steps), NOISES)))
        flags = np.ones((len(steps), NOISES), dtype=bool)
        measured = {"distance": distance.astype(np.int32), "valid": flags, "new": flags}
        found.append(write_view(run, "approach", steps, measured, {"chance": [CHANCE, 0.02]}))
    return records(found)


@pytest.mark.parametrize(
    ("falls_at", "seeds", "verdict"),
    [
        (3_000, 3, "reproduced"),
        (3_000, 1, "seen once"),
        (45_000, 3, "refuted"),  # after copying began
        (np.inf, 3, "refuted"),  # never: new samples stay as far as those of the rule
        (21_000, 3, "undecided"),  # at the same time
    ],
)
def test_distances(tmp_path: Path, falls_at: float, seeds: int, verdict: str) -> None:
    found = Approaching().judge(runs(tmp_path, falls_at, seeds))
    assert found.verdict == verdict, found


def test_runs_without_distances_or_copies_do_not_count(tmp_path: Path) -> None:
    assert Approaching().judge(records([])).verdict == "not run"
    bare = two_clocks_run(tmp_path, "p1-dit-mini", {"data.n": 64}, rule=100, memory=2_000, last=30_000)
    assert Approaching().judge(records([bare])).verdict == "not run"


def test_one_seed_at_each_of_three_n_is_one_seed(tmp_path: Path) -> None:
    """Other N must agree, but are no repetitions."""
    sizes = [
        one for n, seed in ((256, 0), (512, 1), (1024, 2)) for one in runs(tmp_path, 3_000, n=n) if one.seed == seed
    ]
    found = Approaching().judge(Records(sizes))
    assert (found.verdict, found.seeds) == ("seen once", 1), found
    three = runs(tmp_path, 3_000)
    for falls_at, verdict in ((3_000, "reproduced"), (45_000, "undecided")):
        other = runs(tmp_path / f"{falls_at}", falls_at, seeds=1, n=256)
        found = Approaching().judge(Records([*three, *other]))
        assert (found.verdict, found.seeds) == (verdict, 3), found
