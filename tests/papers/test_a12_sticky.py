"""Claim A12 on Markov chains whose persistence is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, two_clocks_run
from simulated_views import write_view

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a12_sticky import Sticky, persistence_of

NOISES = 1024
SHARES = np.array([0.0, 0.2, 0.7, 0.1])  # redrawn: between symbols, broken, valid and new, memorized


def chain(stickiness: dict[int, float], evaluations: int = 16, seed: int = 0) -> np.ndarray:
    """States of noises that stay with a probability, and otherwise draw from fixed shares.

    With the same stickiness κ in all states, stay = κ + (1 − κ)·p, so (stay − p)/(1 − p) = κ.
    """
    rng = np.random.default_rng(seed)
    keep = np.array([stickiness.get(k, 0.0) for k in range(4)])
    states = [rng.choice(4, size=NOISES, p=SHARES)]
    for _ in range(200 + evaluations):  # until the chain has forgotten its start
        moves = rng.random(NOISES) >= keep[states[-1]]
        states.append(np.where(moves, rng.choice(4, size=NOISES, p=SHARES), states[-1]))
    return np.stack(states[-evaluations:]).astype(np.uint8)


def runs(folder: Path, stickiness: dict[int, float], seeds: int = 3) -> Records:
    """Runs with τ_mem near step 1,500, whose outcomes after it are a chain."""
    found = []
    for seed in range(seeds):
        change = {"data.n": 1024, "training.seed": seed}
        run = two_clocks_run(folder, "p1-dit-mini", change, rule=100, memory=2_000, last=30_000)
        steps = log_steps(2_000, 30_000, 16)
        found.append(write_view(run, "raster", steps, {"states": chain(stickiness, len(steps), seed)}))
    return records(found)


def test_known_persistence_is_recovered_and_independent_states_have_none() -> None:
    for kappa in (0.0, 0.7):
        found = persistence_of(chain({1: kappa, 2: kappa, 3: kappa}))
        assert np.allclose(found.value[1:], kappa, atol=0.05)
        assert (found.low[1:] <= kappa + 0.02).all() and (found.high[1:] >= kappa - 0.02).all()
        assert np.isnan(found.low[0])  # nothing was ever between symbols
    raw = chain({})
    assert (raw[:-1][raw[1:] == 2] == 2).mean() > (raw[:-1][raw[1:] == 1] == 1).mean() + 0.3  # shares alone


@pytest.mark.parametrize(
    ("stickiness", "seeds", "verdict"),
    [
        ({1: 0.1, 2: 0.6, 3: 0.9}, 3, "reproduced"),
        ({1: 0.1, 2: 0.6, 3: 0.9}, 1, "seen once"),
        ({}, 3, "undecided"),  # every state stays as often as its share: the raw probabilities would have passed
        ({1: 0.9, 2: 0.6, 3: 0.1}, 3, "refuted"),
        ({1: 0.1, 2: 0.9, 3: 0.1}, 3, "refuted"),  # new samples persist more than copies
    ],
)
def test_chains(tmp_path: Path, stickiness: dict[int, float], seeds: int, verdict: str) -> None:
    found = Sticky().judge(runs(tmp_path, stickiness, seeds))
    assert found.verdict == verdict, found


def test_runs_without_outcomes_or_copies_do_not_count(tmp_path: Path) -> None:
    assert Sticky().judge(records([])).verdict == "not run"
    bare = two_clocks_run(tmp_path, "p1-dit-mini", {"data.n": 64}, rule=100, memory=2_000, last=30_000)
    never = two_clocks_run(tmp_path, "p1-dit-mini", {"data.n": 128}, rule=100, memory=np.inf, last=30_000)
    steps = log_steps(2_000, 30_000, 16)
    write_view(never, "raster", steps, {"states": chain({}, len(steps))})
    assert Sticky().judge(records([bare, never])).verdict == "not run"
