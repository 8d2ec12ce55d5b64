"""Claim A20 on simulated repetitions of the same run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from simulated import clocks_run

from twoclocks.papers.records import Record, Records
from twoclocks.papers.scales import DESK, GPU, Scale
from twoclocks.papers.two_clocks.a20_seeds import DiTSeeds, GPTSeeds

Pairs = Sequence[tuple[float, float]]  # τ_rule and τ_mem of each seed
AGREE = [(500, 5_000), (600, 6_000), (550, 5_500)]


def runs(
    folder: Path,
    clocks: Pairs,
    group: int = 3,
    n: int = 4096,
    last: int = 60_000,
    first: int = 0,
    preset: str = "p1-gpt-mini",
    scale: Scale = GPU,
) -> Records:
    made = [
        clocks_run(
            *(folder, preset, {"rule.group": group, "data.n": n, "training.seed": seed}),
            rule=rule,
            memory=memory,
            last=last,
            scale=scale,
        )
        for seed, (rule, memory) in enumerate(clocks, first)
    ]
    return Records(map(Record, made), scale)


@pytest.mark.parametrize(
    ("clocks", "group", "verdict"),
    [
        (AGREE, 3, "reproduced"),
        (AGREE[:2], 3, "not run"),
        ([(500, 5_000), (600, 6_000), (550, 15_000)], 3, "refuted"),  # one seed copies three times later
        ([(500, 5_000), (600, 6_000), (2_000, 5_500)], 3, "refuted"),  # one seed learns four times later
        ([(500, 5_000), (600, 6_000), (math.inf, 5_500)], 3, "refuted"),  # one seed never learns
        ([(500, 5_000), (500, 5_000), (500, 10_000)], 3, "undecided"),  # ×2
        ([(4_000, 5_000), (1_000, 6_000), (9_000, 5_500)], 3, "undecided"),  # nothing but the frontier
        ([(math.inf, 5_000), (math.inf, 6_000), (math.inf, 5_500)], 9, "undecided"),  # one clock only
        ([(math.inf, 5_000), (math.inf, 6_000), (math.inf, 15_000)], 9, "refuted"),  # never learned, so no frontier
        ([(math.inf, 5_000), (math.inf, 6_000), (math.inf, 15_000)], 6, "undecided"),  # nearly learned, perhaps
    ],
)
def test_the_spread_over_seeds(tmp_path: Path, clocks: Pairs, group: int, verdict: str) -> None:
    made = runs(tmp_path, clocks, group)
    found = GPTSeeds().judge(made)
    assert found.verdict == verdict, found
    assert DiTSeeds().judge(made).verdict == "not run"


def test_the_frontier_is_reported_and_not_judged(tmp_path: Path) -> None:
    frontier = runs(tmp_path, [(4_000, 5_000), (1_000, 6_000), (9_000, 5_500)], group=4)
    found = GPTSeeds().judge(Records([*runs(tmp_path, AGREE), *frontier]))
    assert found.verdict == "reproduced" and "(frontier)" in found.measured


def test_runs_that_end_at_the_rule_are_judged_far_from_the_frontier(tmp_path: Path) -> None:
    """Their end is no τ_mem: where no run of a G and N copied, P1's law says where the frontier is."""
    apart = [
        one
        for seed, rule in enumerate((600, 6_000, 2_500))
        for one in runs(tmp_path, [(rule, 1e7)], 2, 1024, last=rule * 3 // 2, first=seed, preset="p1-dit-mini")
    ]
    agree = runs(tmp_path, [(9_000, 1e5)] * 3, 3, 1024, last=300_000, preset="p1-dit-mini")
    found = DiTSeeds().judge(Records([*apart, *agree]))
    assert found.verdict == "refuted" and not found.values["τ_rule, G=2, N=1,024"]["frontier"], found


@pytest.mark.parametrize(
    ("group", "n", "beside", "scale", "frontier"),
    [
        (3, 8192, None, GPU, False),  # P1's law: 10,800
        (3, 256, None, GPU, True),  # P1's law: 315
        (3, 8192, (8192, 700.0), GPU, True),  # copying was seen, long before P1's law
        (3, 256, (256, 3_000.0), GPU, False),  # or long after it
        (3, 8192, None, DESK, True),  # other networks have another law: perhaps copying follows at once
        (3, 8192, (4096, 5_000.0), DESK, False),  # fewer samples are copied earlier
    ],
)
def test_the_frontier_is_that_of_group_and_size(
    tmp_path: Path, group: int, n: int, beside: tuple[int, float] | None, scale: Scale, frontier: bool
) -> None:
    made = [*runs(tmp_path, [(500, math.inf), (600, math.inf), (550, math.inf)], group, n, last=1_000, scale=scale)]
    if beside is not None:
        made += runs(tmp_path, [(550, beside[1])], group, beside[0], first=3, scale=scale)
    found = GPTSeeds().judge(Records(made, scale))
    assert found.values[f"τ_rule, G={group}, N={n:,}"]["frontier"] == frontier, found


def test_where_copying_comes_long_before_the_rule_of_other_sizes_is_no_frontier(tmp_path: Path) -> None:
    copied = [(math.inf, 1_000), (math.inf, 1_100), (math.inf, 5_000)]
    assert GPTSeeds().judge(runs(tmp_path, copied, 6)).verdict == "undecided"  # the rule is perhaps learned just later
    learned = runs(tmp_path, [(30_000, 1e9)], 6, 16384)
    assert GPTSeeds().judge(Records([*runs(tmp_path, copied, 6), *learned])).verdict == "refuted"


def test_seeds_that_ended_early_are_no_seeds(tmp_path: Path) -> None:
    """They learned, but ended before any seed of this G copied, though another G had copied by then."""
    early = runs(tmp_path, [(300, 1_000)], group=2)
    ended = [one for one in runs(tmp_path / "ended", AGREE, last=2_000) if one.seed > 0]
    found = GPTSeeds().judge(Records([*early, *runs(tmp_path, AGREE[:1]), *ended]))
    assert found.verdict == "undecided" and "τ_mem, G=3, N=4,096" not in found.values
    assert found.values["τ_rule, G=3, N=4,096"]["seeds"] == 3
