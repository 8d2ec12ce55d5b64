"""Claim A6 on simulated laws: it must be reproduced, refuted or undecided where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import records, two_clocks_run

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a06_law import GPTLaw
from twoclocks.papers.two_clocks.table4_fits import Fits

SIZES = (512, 1024, 2048, 4096, 8192, 16384)


def law_runs(
    folder: Path,
    a: float,
    alpha: float,
    seeds: int = 3,
    sizes: tuple[int, ...] = SIZES,
    wide: float = 0.05,
    **more: Any,
) -> Records:
    """GPT runs whose τ_mem scatter around a·N^α, by 5% unless told otherwise."""
    scatter = np.random.default_rng(0).normal(0, wide, size=(len(sizes), seeds))
    return records(
        [
            two_clocks_run(
                *(folder, "p1-gpt-mini", {"data.n": n, "training.seed": seed}),
                rule=100,
                memory=9 ** (1 / 8) * a * n**alpha * np.exp(scatter[i, seed]),  # a tenth at τ_mem, a half later
                **{"last": 60_000, **more},
            )
            for i, n in enumerate(sizes)
            for seed in range(seeds)
        ]
    )


@pytest.mark.parametrize(
    ("a", "alpha", "seeds", "sizes", "verdict"),
    [
        (1.1, 1.02, 3, SIZES, "reproduced"),
        (1.1, 1.02, 1, SIZES, "seen once"),
        (5.7, 0.84, 3, SIZES, "refuted"),  # another exponent
        (3.3, 1.02, 3, SIZES, "refuted"),  # the exponent is right, but all onsets are three times later
        (1.1, 1.02, 1, (512, 640, 800, 1024), "undecided"),  # sizes too close for a narrow interval
        (1.1, 1.02, 3, (512, 1024), "not run"),
    ],
)
def test_the_law(tmp_path: Path, a: float, alpha: float, seeds: int, sizes: tuple[int, ...], verdict: str) -> None:
    found = GPTLaw().judge(law_runs(tmp_path, a, alpha, seeds, sizes))
    assert found.verdict == verdict, found


def test_other_settings_do_not_enter(tmp_path: Path) -> None:
    """Runs of another batch, rate, group or network are other laws."""
    others = [
        {"training.batch": 64},
        {"training.learning_rate": 3e-4},
        {"rule.group": 2},
        {"training.weight_decay": 0.1},
    ]
    noise = [
        two_clocks_run(tmp_path, "p1-gpt-mini", {"data.n": n, **other}, rule=100, memory=200, last=60_000)
        for other in others
        for n in SIZES
    ]
    both = Records([*law_runs(tmp_path, 1.1, 1.02), *records(noise)])
    assert GPTLaw().judge(both).verdict == "reproduced"


def test_runs_that_diverged_are_no_law(tmp_path: Path) -> None:
    assert GPTLaw().judge(law_runs(tmp_path, 1.1, 1.02, status="diverged")).verdict == "not run"


def test_seeds_that_ended_before_copying_do_not_count(tmp_path: Path) -> None:
    first = law_runs(tmp_path, 1.1, 1.02, seeds=1)
    ended = law_runs(tmp_path / "ended", 1.1, 1.02, last=400).where(training__seed=(1, 2))
    found = GPTLaw().judge(Records([*first, *ended]))
    assert found.verdict == "seen once" and found.seeds == 1


def test_one_more_n_with_one_seed_takes_nothing_away(tmp_path: Path) -> None:
    """It is reported beside the verdict of the N with three seeds, also where it is far from the law."""
    more = law_runs(tmp_path, 1.1, 1.02, seeds=1, sizes=(768,))
    odd = law_runs(tmp_path / "odd", 6.0, 1.02, seeds=1, sizes=(768,))
    for other in (more, odd):
        found = GPTLaw().judge(Records([*law_runs(tmp_path, 1.1, 1.02), *other]))
        assert (found.verdict, found.seeds) == ("reproduced", 3) and "not judged" in found.measured
        assert found.values["with_fewer_seeds"]["points"] == found.values["points"] + 1
    few = law_runs(tmp_path / "few", 1.1, 1.02, sizes=SIZES[:3])  # three N are no law: all N are judged
    assert GPTLaw().judge(Records([*few, *law_runs(tmp_path, 1.1, 1.02, seeds=1)])).verdict == "seen once"


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.2, "reproduced"), (1.48, "undecided"), (1.51, "undecided"), (0.75, "undecided"), (1.8, "refuted")],
)
def test_a_factor_that_the_scatter_does_not_tell_from_the_border_is_undecided(
    tmp_path: Path, factor: float, verdict: str
) -> None:
    found = GPTLaw().judge(law_runs(tmp_path, 1.1 * factor, 1.02, wide=0.1))
    assert found.verdict == verdict, found


def test_an_n_at_which_copying_was_not_seen_is_no_size_of_a_law(tmp_path: Path) -> None:
    """It may enter the fit of four others, as a bound; Table 4 says the same."""
    short = law_runs(tmp_path / "short", 1.1, 1.02, seeds=1, sizes=(16384,), last=400)
    for sizes, verdict in ((SIZES[:3], "not run"), (SIZES[:5], "reproduced")):
        every = Records([*law_runs(tmp_path, 1.1, 1.02, sizes=sizes), *short])
        found = GPTLaw().judge(every)
        assert found.verdict == verdict, found
        row = next(one for one in Fits().data(every).rows if (one.preset, one.group) == ("p1-gpt-mini", 3))
        assert (row.ours.law is None) == (verdict == "not run")
        if row.ours.law is not None:
            assert row.ours.law.as_json().items() <= found.values.items() and row.ours.law.censored == 1
