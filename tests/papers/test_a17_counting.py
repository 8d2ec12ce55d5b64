"""Claim A17 on rules that are learned at known steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a17_counting import Counting
from twoclocks.papers.two_clocks.runs import COUNTING
from twoclocks.runs.rows import StoredRun

TRIPLES = {"name": "parity", "length": 36, "group": 3}
AS_PAPER = {"parity2": 1_000, "exact_k": 1_100, "row_k": 900, "row_variable_k": 1_600, "global_k": 1_700}


def one_run(
    folder: Path, rule: Mapping[str, Any], at: float, seed: int, dips: bool, averaged: bool, n: int = 4096
) -> StoredRun:
    """A run that learns at a step, with its seed's scatter; ``dips``: its validity falls again for a while."""
    steps = log_steps(100, 30_000, 120)
    at *= float(np.exp(np.random.default_rng(seed).normal(0, 0.03)))
    smooth = 0.99 * rise(steps, at, 16)
    valid = smooth * np.where((np.array(steps) > 1.15 * at) & (np.array(steps) < 4 * at), 0.7, 1.0) if dips else smooth
    columns = {"sample_accuracy": valid, "sample_memorization": 0 * valid}
    change = {"rule": dict(rule), "data.n": n, "training.seed": seed}
    if averaged:
        change["training.average"] = 0.999
        columns |= {"averaged_sample_accuracy": smooth, "averaged_sample_memorization": 0 * valid}
    return simulated_run(folder, "p1-dit-mini", change, steps, columns)


def runs(
    folder: Path,
    onsets: Mapping[str, float],
    triples: float,
    seeds: int = 3,
    dips: str = "",
    averaged: bool = False,
    n: int = 4096,
) -> Records:
    """Runs of all counting rules that have an onset, by kind, or by kind and K."""
    found = []
    for rule in (*COUNTING, TRIPLES):
        kind = f"parity{rule['group']}" if rule["name"] == "parity" else str(rule["name"])
        at = {**onsets, "parity3": triples}.get(f"{kind}{rule.get('k', '')}", {**onsets, "parity3": triples}.get(kind))
        if at is not None:
            found += [one_run(folder, rule, at, seed, kind == dips, averaged, n) for seed in range(seeds)]
    return records(found)


@pytest.mark.parametrize(
    ("change", "triples", "seeds", "verdict"),
    [
        ({}, 10_000, 3, "reproduced"),
        ({}, 10_000, 1, "seen once"),
        ({"exact_k18": 4_500.0}, 10_000, 3, "refuted"),  # one K is much slower
        ({}, 1_300, 3, "refuted"),  # a bit more per group costs as little as another K
        ({"row_variable_k": 500.0}, 10_000, 3, "refuted"),  # variable K is earlier
        ({"row_k4": 2_000.0}, 10_000, 3, "undecided"),  # later than row-K with two of three K
        ({"exact_k18": 2_846.0}, 10_000, 3, "undecided"),  # the spread is about the square root of the step
    ],
)
def test_onsets(tmp_path: Path, change: dict[str, float], triples: float, seeds: int, verdict: str) -> None:
    found = Counting().judge(runs(tmp_path, {**AS_PAPER, **change}, triples, seeds, averaged=True))
    assert found.verdict == verdict, found


def test_every_threshold_counts_and_averaged_weights_where_there_are_some(tmp_path: Path) -> None:
    """Exact-K falls to 70% after its first crossing: late at thresholds from 0.7 on, though not for averages."""
    found = Counting().judge(runs(tmp_path, AS_PAPER, 10_000, dips="exact_k", averaged=True))
    assert found.verdict == "refuted"
    answers = found.values["answers"]
    assert {answers[f"raw, {level}: spread over K"] for level in ("0.5", "0.6")} == {"yes"}
    assert answers["raw, 0.9: spread over K"] == "no"
    assert {answer for what, answer in answers.items() if what.startswith("averaged")} == {"yes"}


def test_without_averaged_weights_it_is_undecided(tmp_path: Path) -> None:
    found = Counting().judge(runs(tmp_path, AS_PAPER, 10_000))
    assert found.verdict == "undecided" and "undecided without averaged weights" in found.measured
    slow = runs(tmp_path / "slow", {**AS_PAPER, "exact_k18": 4_500.0}, 10_000)
    assert Counting().judge(slow).verdict == "refuted"  # raw weights alone can refute it


def test_one_count_of_a_kind_says_nothing_about_other_counts(tmp_path: Path) -> None:
    made = runs(tmp_path, AS_PAPER, 10_000, averaged=True)
    for kind, k in (("exact_k", 9), ("row_k", 2)):
        some = Records(one for one in made if one.value("rule.name") != kind or one.value("rule.k") == k)
        found = Counting().judge(some)
        assert found.verdict == "undecided" and f"missing: {kind} with another K" in found.measured
    assert "global_k K = 2 or 3" in Counting().judge(made).measured


def test_only_the_papers_n_decides(tmp_path: Path) -> None:
    found = Counting().judge(runs(tmp_path, AS_PAPER, 10_000, averaged=True, n=64))
    assert found.verdict == "undecided" and "the claim is about N = 4,096" in found.measured


def test_missing_rules_are_named(tmp_path: Path) -> None:
    some = {name: at for name, at in AS_PAPER.items() if name in ("parity2", "exact_k")}
    found = Counting().judge(runs(tmp_path, some, 10_000))
    assert found.verdict == "undecided" and "missing: row_k, row_variable_k, global_k" in found.measured
    assert Counting().judge(records([])).verdict == "not run"
    alone = runs(tmp_path, some, 10_000).where(rule__name="exact_k")
    assert Counting().judge(alone).verdict == "not run"
