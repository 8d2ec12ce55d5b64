"""Claim A5 on simulated clocks of three sizes of network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a05_capacity import SIZES, DiTCapacity, GPTCapacity

Clocks = Sequence[tuple[float, float]]  # τ_rule and τ_mem of nano, mini, B


def runs(
    folder: Path,
    clocks: Clocks,
    seeds: int = 3,
    precisions: Sequence[str] = ("bfloat16",) * 3,
    n: int = 512,
    last: int = 30_000,
    data: int = 0,
) -> Records:
    return records(
        [
            clocks_run(
                *(folder, f"p1-gpt-{size}"),
                {
                    **{"rule.group": 2, "data.n": n, "data.seed": data},
                    **{"training.seed": seed, "training.precision": precision},
                },
                rule=rule,
                memory=memory,
                last=last,
            )
            for size, precision, (rule, memory) in zip(SIZES, precisions, clocks, strict=True)
            for seed in range(seeds)
        ]
    )


@pytest.mark.parametrize(
    ("clocks", "seeds", "verdict"),
    [
        (((900, 9_000), (600, 6_000), (300, 3_000)), 3, "reproduced"),
        (((900, 9_000), (600, 6_000), (300, 3_000)), 1, "seen once"),
        (((900, math.inf), (600, 6_000), (300, 3_000)), 3, "reproduced"),  # nano does not copy at all
        (((900, 9_000), (600, 6_000), (300, 8_000)), 3, "refuted"),  # B copies later
        (((300, 9_000), (600, 6_000), (900, 3_000)), 3, "refuted"),  # the rule is learned later
        (((900, 9_000), (600, 6_000), (600, 3_000)), 3, "undecided"),  # the same evaluation
        (((900, math.inf), (600, math.inf), (300, math.inf)), 3, "undecided"),  # no τ_mem at all
    ],
)
def test_larger_networks_are_earlier(tmp_path: Path, clocks: Clocks, seeds: int, verdict: str) -> None:
    found = GPTCapacity().judge(runs(tmp_path, clocks, seeds))
    assert found.verdict == verdict, found


def test_training_sets_that_disagree_decide_nothing(tmp_path: Path) -> None:
    ordered, other = ((900, 9_000), (600, 6_000), (300, 3_000)), ((300, 9_000), (600, 6_000), (900, 3_000))
    first, second = runs(tmp_path, ordered), runs(tmp_path, other, data=1)
    assert GPTCapacity().judge(Records([*first, *second])).verdict == "undecided"
    again = runs(tmp_path, ordered, data=1)
    found = GPTCapacity().judge(Records([*first, *again]))
    assert found.verdict == "reproduced" and "data 1" in found.measured


def test_only_the_same_data_and_precision_are_compared(tmp_path: Path) -> None:
    ordered = ((900.0, 9_000.0), (600.0, 6_000.0), (300.0, 3_000.0))
    mixed = runs(tmp_path, ordered, precisions=("float32", "bfloat16", "bfloat16"))
    assert GPTCapacity().judge(mixed).verdict == "not run"
    whole = runs(tmp_path / "whole", ordered)
    assert GPTCapacity().judge(whole.where(preset=("p1-gpt-nano", "p1-gpt-b"))).verdict == "not run"
    uncopied = runs(tmp_path / "whole", [(rule, math.inf) for rule, _ in ordered], n=4096)
    assert GPTCapacity().judge(Records([*whole, *uncopied])).verdict == "reproduced"  # no τ_mem there says nothing
    assert DiTCapacity().judge(whole).verdict == "not run"


def test_only_seeds_that_went_on_count_and_fewer_seeds_at_another_n_take_nothing_away(tmp_path: Path) -> None:
    ordered = ((900.0, 9_000.0), (600.0, 6_000.0), (300.0, 3_000.0))
    ended = [one for one in runs(tmp_path / "ended", ordered, last=1_500) if one.seed > 0]
    found = GPTCapacity().judge(Records([*runs(tmp_path, ordered, 1), *ended]))
    assert found.verdict == "seen once" and found.seeds == 1
    more = Records([*runs(tmp_path, ordered), *runs(tmp_path, ordered, 1, n=256)])
    assert GPTCapacity().judge(more).verdict == "reproduced"
