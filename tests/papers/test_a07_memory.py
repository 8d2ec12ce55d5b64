"""Claim A7 on simulated clocks over group sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a07_memory import DiTMemoryByGroup, GPTMemoryByGroup
from twoclocks.papers.two_clocks.runs import GROUPS


def runs(folder: Path, slowest: float, groups: Sequence[int] = GROUPS, seeds: int = 3, n: int = 512) -> Records:
    """GPT runs whose τ_mem grows evenly with the place of G, up to a factor."""
    return records(
        [
            clocks_run(
                *(folder, "p1-gpt-mini", {"rule.group": group, "data.n": n, "training.seed": seed}),
                rule=300 if group < 6 else math.inf,
                memory=2_000 * slowest ** (GROUPS.index(group) / 7),
                last=15_000,
            )
            for group in groups
            for seed in range(seeds)
        ]
    )


@pytest.mark.parametrize(
    ("slowest", "groups", "seeds", "verdict"),
    [
        (1.5, GROUPS, 3, "reproduced"),
        (1 / 1.5, GROUPS, 1, "seen once"),
        (3.0, GROUPS, 3, "refuted"),
        (2.0, GROUPS, 3, "undecided"),
        (1.2, (2, 3, 36), 3, "undecided"),  # some groups were not run
        (3.0, (2, 3, 36), 3, "refuted"),
        (1.2, (3,), 3, "not run"),
    ],
)
def test_the_spread_over_groups(
    tmp_path: Path, slowest: float, groups: Sequence[int], seeds: int, verdict: str
) -> None:
    found = GPTMemoryByGroup().judge(runs(tmp_path, slowest, groups, seeds))
    assert found.verdict == verdict, found


def test_every_n_counts_and_short_runs_do_not(tmp_path: Path) -> None:
    whole = runs(tmp_path, 1.3)
    assert GPTMemoryByGroup().judge(Records([*whole, *runs(tmp_path, 3.0, n=1024)])).verdict == "refuted"
    short = [
        clocks_run(
            *(tmp_path, "p1-gpt-mini", {"rule.group": 2, "data.n": 512, "training.seed": seed}),
            rule=300,
            memory=math.inf,
            last=1_000,
        )
        for seed in (7, 8)
    ]
    assert GPTMemoryByGroup().judge(Records([*whole, *records(short)])).verdict == "reproduced"
    assert DiTMemoryByGroup().judge(whole).verdict == "not run"


@pytest.mark.parametrize(("last", "verdict"), [(9_000, "refuted"), (3_000, "undecided")])
def test_a_group_that_never_copies(tmp_path: Path, last: int, verdict: str) -> None:
    """It refutes where the run went on for more than twice as long as the others took."""
    never = [
        clocks_run(
            *(tmp_path, "p1-gpt-mini", {"rule.group": 36, "data.n": 512, "training.seed": seed}),
            rule=math.inf,
            memory=math.inf,
            last=last,
        )
        for seed in range(3)
    ]
    found = GPTMemoryByGroup().judge(Records([*runs(tmp_path, 1.0, GROUPS[:-1]), *records(never)]))
    assert found.verdict == verdict and "more than ×" in found.measured


def test_points_with_three_seeds_decide_only_what_the_others_do_not_contradict(tmp_path: Path) -> None:
    """The claim is about every N: two seeds elsewhere leave it open; a seed that agrees does no harm."""
    whole = runs(tmp_path, 1.2)
    contrary = Records([*whole, *runs(tmp_path, 6.0, n=1024, seeds=2)])
    found = GPTMemoryByGroup().judge(contrary)
    assert (found.verdict, found.seeds) == ("undecided", 2) and "three seeds: " in found.measured, found
    assert "N = 1,024: more than ×5" in found.measured and found.values["with_fewer_seeds"]
    for groups in (GROUPS, GROUPS[:3]):  # it agrees, or it is incomplete
        more = Records([*whole, *runs(tmp_path, 1.3, groups, n=2048, seeds=1)])
        assert GPTMemoryByGroup().judge(more).verdict == "reproduced"
