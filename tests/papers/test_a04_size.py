"""Claim A4 on simulated clocks over N."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a04_size import GPTRuleBySize

SIZES = (512, 1024, 4096)


def runs(folder: Path, power: float, groups: Sequence[int] = (2, 3), seeds: int = 3, last: int = 20_000) -> Records:
    """GPT runs whose τ_rule grows as a power of N, and that copy never."""
    return records(
        [
            clocks_run(
                *(folder, "p1-gpt-mini", {"rule.group": group, "data.n": n, "training.seed": seed}),
                rule=300.0 * group * (n / 512) ** power,
                memory=math.inf,
                last=last,
            )
            for group in groups
            for n in SIZES
            for seed in range(seeds)
        ]
    )


@pytest.mark.parametrize(
    ("power", "groups", "seeds", "verdict"),
    [
        (0.1, (2, 3), 3, "reproduced"),  # ×1.23
        (-0.1, (2, 3), 2, "seen once"),
        (0.5, (2, 3), 3, "refuted"),  # ×2.8
        (-0.5, (2, 3), 3, "refuted"),
        (1 / 3, (2, 3), 3, "undecided"),  # ×2, within the spacing of the evaluations
        (0.1, (3,), 3, "undecided"),  # the other group size is missing
        (0.5, (3,), 3, "refuted"),
    ],
)
def test_the_rule_clock_over_n(tmp_path: Path, power: float, groups: Sequence[int], seeds: int, verdict: str) -> None:
    found = GPTRuleBySize().judge(runs(tmp_path, power, groups, seeds))
    assert found.verdict == verdict, found


def test_ranges_runs_and_sizes_that_say_nothing(tmp_path: Path) -> None:
    assert GPTRuleBySize().judge(runs(tmp_path, 0.1).where(data__n=(512, 1024))).verdict == "not run"
    assert GPTRuleBySize().judge(runs(tmp_path, 0.1, last=100)).verdict == "not run"  # ended before τ_rule
    # Where copying came first, a later onset of validity is no rule learning: it neither helps nor harms.
    first = clocks_run(tmp_path, "p1-gpt-mini", {"rule.group": 3, "data.n": 64}, rule=9_000, memory=400, last=20_000)
    found = GPTRuleBySize().judge(Records([*runs(tmp_path, 0.1), *records([first])]))
    assert found.verdict == "reproduced" and "copying came first: G=3, N=64" in found.measured


def test_no_eightfold_range_may_fail(tmp_path: Path) -> None:
    """The range 1,024 to 8,192 fails although 512 to 4,096 does not."""
    later = [
        clocks_run(
            *(tmp_path, "p1-gpt-mini", {"rule.group": 3, "data.n": 8192, "training.seed": seed}),
            rule=5_000,
            memory=math.inf,
            last=20_000,
        )
        for seed in range(3)
    ]
    assert GPTRuleBySize().judge(Records([*runs(tmp_path, 0.0), *records(later)])).verdict == "refuted"


def test_a_wider_range_alone_is_no_eightfold_one(tmp_path: Path) -> None:
    """N = 256 and 4,096: a factor of 2 over a 16-fold range says nothing about an 8-fold one."""
    made = [
        clocks_run(
            *(tmp_path, "p1-gpt-mini", {"rule.group": group, "data.n": n, "training.seed": seed}),
            rule=300 if n == 256 else 900,
            memory=math.inf,
            last=20_000,
        )
        for group in (2, 3)
        for n in (256, 4096)
        for seed in range(3)
    ]
    assert GPTRuleBySize().judge(records(made)).verdict in ("not run", "undecided")


@pytest.mark.parametrize(
    ("last", "verdict"),
    [(100_000, "refuted"), (1_700, "undecided"), (500, "reproduced")],  # ended as planned: no evidence
)
def test_a_rule_that_is_not_learned_at_one_n_is_seen(tmp_path: Path, last: int, verdict: str) -> None:
    never = [
        clocks_run(
            *(tmp_path, "p1-gpt-mini", {"rule.group": 3, "data.n": 8192, "training.seed": seed}),
            rule=math.inf,
            memory=math.inf,
            last=last,
        )
        for seed in range(3)
    ]
    found = GPTRuleBySize().judge(Records([*runs(tmp_path, 0.0), *records(never)]))
    assert found.verdict == verdict, found


def test_one_more_n_with_one_seed_takes_nothing_away_unless_it_says_the_contrary(tmp_path: Path) -> None:
    for rule, verdict in ((900.0, "reproduced"), (9_000.0, "undecided")):
        change = {"rule.group": 3, "data.n": 8192}
        more = clocks_run(tmp_path / f"{rule}", "p1-gpt-mini", change, rule=rule, memory=math.inf, last=20_000)
        found = GPTRuleBySize().judge(Records([*runs(tmp_path, 0.0), *records([more])]))
        assert found.verdict == verdict and "8,192" in found.measured


def test_seeds_that_ended_before_the_first_onset_of_their_n_do_not_count(tmp_path: Path) -> None:
    """They went on beyond the earliest onset of other N, though."""
    ended = [
        clocks_run(
            *(tmp_path / "ended", "p1-gpt-mini", {"rule.group": group, "data.n": 4096, "training.seed": seed}),
            rule=math.inf,
            memory=math.inf,
            last=345 * group,
        )
        for group in (2, 3)
        for seed in (1, 2)
    ]
    long = runs(tmp_path, 0.15).those(lambda one: one.n < 4096 or one.seed == 0)
    found = GPTRuleBySize().judge(Records([*long, *records(ended)]))
    assert found.verdict == "seen once" and found.seeds == 1, found
