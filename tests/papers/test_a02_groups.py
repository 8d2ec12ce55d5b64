"""Claim A2 on simulated clocks: tenfold per unit of G, and not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a02_groups import RuleByGroup


def runs(folder: Path, clocks: Sequence[float], seeds: int = 3, n: int = 4096, last: int = 200_000) -> Records:
    """DiT runs at G = 2, 3, 4 with these τ_rule."""
    return records(
        [
            clocks_run(
                *(folder, "p1-dit-mini", {"rule.group": group, "data.n": n, "training.seed": seed}),
                rule=rule * (1 + 0.1 * (seed - 1)),
                memory=math.inf,
                last=last,
            )
            for group, rule in zip((2, 3, 4), clocks, strict=False)
            for seed in range(seeds)
        ]
    )


@pytest.mark.parametrize(
    ("clocks", "seeds", "verdict"),
    [
        ((1_000, 10_000, 100_000), 3, "reproduced"),
        ((1_000, 10_000, 100_000), 1, "seen once"),
        ((1_000, 10_000, 30_000), 3, "refuted"),  # ×3 from 3 to 4
        ((1_000, 40_000, 400_000), 3, "refuted"),  # ×40 from 2 to 3, and more than ×5 from 3 to 4
        ((1_000, 5_000, 50_000), 3, "undecided"),  # the evaluations are too far apart to tell ×5
        ((1_000, 10_000), 3, "not run"),
    ],
)
def test_the_ratio_per_unit_of_group_size(tmp_path: Path, clocks: Sequence[float], seeds: int, verdict: str) -> None:
    found = RuleByGroup().judge(runs(tmp_path, clocks, seeds))
    assert found.verdict == verdict, found


def test_groups_are_compared_at_the_same_n(tmp_path: Path) -> None:
    """The paper's N is taken where all groups were run; others do not enter."""
    both = Records(
        [
            *runs(tmp_path, (1_000, 10_000, 100_000)),
            *runs(tmp_path, (1_000, 2_000, 4_000), n=8192),
            *runs(tmp_path, (3_000,), n=1024),
        ]
    )
    found = RuleByGroup().judge(both)
    assert found.verdict == "reproduced" and found.values["n"] == 4096


def test_a_run_that_ended_early_is_no_evidence(tmp_path: Path) -> None:
    long, short = runs(tmp_path, (1_000, 10_000, 100_000)), runs(tmp_path, (1_000, 10_000, 100_000), 4, last=5_000)
    fourth = [one for one in short if one.seed == 3]
    assert RuleByGroup().judge(Records([*long, *fourth])).verdict == "reproduced"


def test_a_group_that_is_not_learned_is_a_lower_bound(tmp_path: Path) -> None:
    """Not learned by 200,000 steps: more than ×20 refutes, more than ×4 leaves it open."""
    assert RuleByGroup().judge(runs(tmp_path / "a", (500, 5_000, math.inf))).verdict == "refuted"
    assert RuleByGroup().judge(runs(tmp_path / "b", (5_000, 50_000, math.inf))).verdict == "undecided"


def test_seeds_that_ended_early_are_no_seeds(tmp_path: Path) -> None:
    long, short = runs(tmp_path, (1_000, 10_000, 100_000), 1), runs(tmp_path, (1_000, 10_000, 100_000), last=500)
    found = RuleByGroup().judge(Records([*long, *(one for one in short if one.seed > 0)]))
    assert found.verdict == "seen once" and found.seeds == 1
