"""Claim A1 on simulated runs: cube, rule, memory, and a dip that is there or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a01_order import CubeRuleMemory

RULE, MEMORY, LAST = 10_000.0, 500_000.0, 2_000_000


def runs(
    folder: Path,
    dip: float = 0.05,
    early_dip: float = 0.0,
    early_at: float = 60_000,
    cube: float | None = 100.0,
    rule: float = RULE,
    last: int = LAST,
    seeds: int = 3,
    n: int = 4096,
) -> Records:
    """DiT runs; accuracy dips around the first copies, and perhaps earlier, where nothing is copied."""
    made = []
    for seed in range(seeds):
        steps = log_steps(30, last, 100)
        copied = rise(steps, MEMORY, 4)
        log = np.log(np.asarray(steps))
        dips = sum(
            depth * np.exp(-(((log - np.log(at)) / 0.2) ** 2)) for depth, at in ((dip, MEMORY), (early_dip, early_at))
        )
        noise = np.random.default_rng(seed).normal(0, 0.001, len(steps))
        valid = (rise(steps, rule) * (0.99 - dips) + noise).clip(0, 1)
        valid = np.maximum(valid, copied)
        columns = {"sample_accuracy": valid, "sample_memorization": copied, "valid_new": valid - copied}
        if cube is not None:
            columns["invalid_0.5"] = 1 - rise(steps, cube)
        made.append(simulated_run(folder, "p1-dit-mini", {"data.n": n, "training.seed": seed}, steps, columns))
    return records(made)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "reproduced"),
        ({"seeds": 1}, "seen once"),
        ({"dip": 0.0}, "refuted"),  # no dip
        ({"dip": 0.03, "early_dip": 0.05}, "refuted"),  # a larger dip without any copies
        ({"early_dip": 0.08, "early_at": 230_000}, "reproduced"),  # a larger one with 4% copies is not copy-free
        ({"cube": 20_000.0}, "refuted"),  # the rule before the cube
        ({"rule": 5e6, "last": 9_000_000}, "refuted"),  # memory before the rule
        ({"cube": None}, "undecided"),  # not measured
        ({"dip": 0.0, "last": 480_000}, "undecided"),  # the run ended before half of the samples were copies
        ({"last": 100_000}, "not run"),
    ],
)
def test_cube_rule_memory_and_the_dip(tmp_path: Path, change: dict[str, float], verdict: str) -> None:
    found = CubeRuleMemory().judge(runs(tmp_path, **change))  # type: ignore[arg-type]
    assert found.verdict == verdict, found


def test_the_papers_n_is_taken_where_it_was_run(tmp_path: Path) -> None:
    """A larger N and another σ_data do not enter; without the paper's N it is the largest."""
    larger = runs(tmp_path, dip=0.0, n=8192)
    assert CubeRuleMemory().judge(Records([*runs(tmp_path), *larger])).verdict == "reproduced"
    assert CubeRuleMemory().judge(Records([*runs(tmp_path, n=64), *larger])).verdict == "refuted"
