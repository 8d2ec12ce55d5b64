"""Claim A11 on simulated models that recombine known groups, guess bits or know the rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run
from simulated_views import with_header

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a11_recombination import MOST_SAMPLES, OMITTED, Recombination, invention
from twoclocks.runs.rows import StoredRun

KNOWN = {4: 0.875, 9: 0.63, 12: 0.31, 18: 0.004}
CASES = ((9, 64), (12, 256), (18, 256))


def mixed_run(folder: Path, group: int, n: int, seed: int, inventive: float, last: int = 30_000) -> StoredRun:
    """A model that goes from random bits to known groups, a share of them invented by the rule, and then to copies."""
    steps, known = log_steps(30, last), KNOWN[group]
    learned, copied = rise(steps, 3_000), rise(steps, 20_000)
    ruled = inventive * learned * (1 - copied)
    recombined = (1 - inventive) * learned * (1 - copied)
    random = (1 - learned) * (1 - copied)
    columns = {
        "sample_accuracy": copied,
        "sample_memorization": copied,
        "group_accuracy": copied + ruled + recombined + random / 2,
        "group_memorization": copied + ruled * known + recombined + random * known / 2,
    }
    change = {"rule.group": group, "data.n": n, "training.seed": seed, "data.omit": int(group == OMITTED)}
    if group == OMITTED:  # such a run learns the rule, without one of the contents or with it
        columns["sample_accuracy"] = np.maximum(0.99 * learned, copied)
    run = simulated_run(folder, "p1-dit-mini", change, steps, columns)
    column = {"name": "group_memorization", "about": "", "direction": "higher is copying", "chance_rule": known}
    return with_header(run, metrics=[column])


def runs(folder: Path, inventive: float, seeds: int = 3, cases: Sequence[tuple[int, int]] = CASES) -> Records:
    return records([mixed_run(folder, g, n, seed, inventive) for g, n in cases for seed in range(seeds)])


def test_the_statistic_is_zero_for_mixtures_of_copies_and_chance_and_one_for_the_rule(tmp_path: Path) -> None:
    for inventive in (0.0, 0.4, 1.0):
        for one in runs(tmp_path, inventive, seeds=1):
            found = invention(one)
            assert found is not None
            learned = rise(found.steps, 3_000)
            assert np.allclose(found.rate, inventive * learned, atol=0.01)


@pytest.mark.parametrize(
    ("inventive", "seeds", "verdict"),
    [
        (0.5, 3, "refuted"),
        (1.0, 3, "refuted"),
        (0.5, 1, "undecided"),
        (0.0, 3, "undecided"),  # the case with removed contents is still missing
    ],
)
def test_whole_groups(tmp_path: Path, inventive: float, seeds: int, verdict: str) -> None:
    found = Recombination().judge(runs(tmp_path, inventive, seeds))
    assert found.verdict == verdict and "missing: G = 4" in found.measured, found


def test_all_cases_together(tmp_path: Path) -> None:
    """With every case there, recombination is reproduced; one case in which groups are invented refutes it."""
    every = [*CASES, (OMITTED, 4096)]
    assert Recombination().judge(runs(tmp_path, 0.0, cases=every)).verdict == "reproduced"
    assert Recombination().judge(runs(tmp_path, 0.0, seeds=1, cases=every)).verdict == "seen once"
    invented = runs(tmp_path / "invented", 0.9, cases=[(OMITTED, 4096)])
    assert Recombination().judge(Records([*runs(tmp_path, 0.0), *invented])).verdict == "refuted"


def test_one_seed_at_each_of_three_n_is_one_seed(tmp_path: Path) -> None:
    """G = 18 may be run at any N; they must agree, but are no repetitions."""
    others = runs(tmp_path, 0.0, cases=[(9, 64), (12, 256), (OMITTED, 4096)])
    spread = [mixed_run(tmp_path, 18, n, seed, 0.0) for seed, n in enumerate((256, 512, 1024))]
    found = Recombination().judge(Records([*others, *records(spread)]))
    assert (found.verdict, found.seeds) == ("seen once", 1), found


def test_only_where_it_can_fail_and_only_what_was_measured(tmp_path: Path) -> None:
    claim = Recombination()
    assert claim.judge(records([])).verdict == "not run"
    assert claim.judge(runs(tmp_path, 0.5, cases=[(9, 256), (12, 1024)])).verdict == "not run"  # all groups known
    early = [mixed_run(tmp_path / "early", 9, 64, 0, 0.0, last=5_000)]  # ended before copying began
    assert claim.judge(records(early)).verdict == "not run"
    bare: dict[str, Any] = {"sample_memorization": rise([10, 100, 1000, 9000], 100)}
    bare["sample_accuracy"] = bare["sample_memorization"]
    old = simulated_run(tmp_path, "p1-dit-mini", {"rule.group": 18, "data.n": 64}, [10, 100, 1000, 9000], bare)
    assert claim.judge(records([old])).verdict == "not run"  # rows without columns of groups
    assert set(MOST_SAMPLES) == {group for group, _ in CASES}
