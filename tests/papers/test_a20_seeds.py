"""Claim A20 on simulated repetitions of the same run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a20_seeds import DiTSeeds, GPTSeeds

Pairs = Sequence[tuple[float, float]]  # τ_rule and τ_mem of each seed
AGREE = [(500, 5_000), (600, 6_000), (550, 5_500)]


def runs(folder: Path, clocks: Pairs, group: int = 3, n: int = 4096, last: int = 60_000) -> Records:
    return records(
        [
            clocks_run(
                *(folder, "p1-gpt-mini", {"rule.group": group, "data.n": n, "training.seed": seed}),
                rule=rule,
                memory=memory,
                last=last,
            )
            for seed, (rule, memory) in enumerate(clocks)
        ]
    )


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


def test_runs_that_end_at_the_rule_use_the_memory_of_others(tmp_path: Path) -> None:
    """τ_mem of fewer samples of the same rule is a lower bound."""
    short = runs(tmp_path, [(500, math.inf), (600, math.inf), (550, math.inf)], n=8192, last=1_000)
    alone, beside = (GPTSeeds().judge(one).values for one in (short, Records([*short, *runs(tmp_path, AGREE)])))
    assert alone["τ_rule, G=3, N=8,192"]["frontier"] and not beside["τ_rule, G=3, N=8,192"]["frontier"]


def test_seeds_that_ended_early_are_no_seeds(tmp_path: Path) -> None:
    """They learned, but ended before any seed of this G copied, though another G had copied by then."""
    early = runs(tmp_path, [(300, 1_000)], group=2)
    ended = [one for one in runs(tmp_path / "ended", AGREE, last=2_000) if one.seed > 0]
    found = GPTSeeds().judge(Records([*early, *runs(tmp_path, AGREE[:1]), *ended]))
    assert found.verdict == "undecided" and "τ_mem, G=3, N=4,096" not in found.values
    assert found.values["τ_rule, G=3, N=4,096"]["seeds"] == 3
