"""Claim A3 on simulated runs: hard rules that are never learned, and one that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a03_never import HARD, DiTNeverLearned, GPTNeverLearned


def runs(
    folder: Path,
    groups: Sequence[int] = HARD,
    seeds: int = 3,
    learned: float = 0.0,
    memory: float = 20_000,
    first: int = 0,
) -> Records:
    """GPT runs whose samples are copies from a step on; of all others a proportion is valid, at the step 3,000."""
    steps = log_steps(100, 60_000)
    copied = rise(steps, memory)
    made = []
    for group in groups:
        chance = 2.0 ** -(36 // group)
        new = (1 - copied) * (chance + learned * rise(steps, 3_000))
        columns = {"sample_accuracy": copied + new, "sample_memorization": copied, "valid_new": new}
        for seed in range(first, first + seeds):
            change = {"rule.group": group, "training.seed": seed}
            made.append(simulated_run(folder, "p1-gpt-mini", change, steps, columns))
    return records(made)


@pytest.mark.parametrize(
    ("groups", "seeds", "learned", "memory", "verdict"),
    [
        (HARD, 3, 0.0, 20_000, "reproduced"),
        (HARD, 1, 0.0, 20_000, "seen once"),
        (HARD, 3, 0.3, 20_000, "refuted"),  # a third of the new samples obey the rule before they are copies
        (HARD, 3, 0.1, 20_000, "undecided"),  # on the margin
        (HARD, 3, 0.0, 1e9, "not run"),  # nothing is ever copied, so no late accuracy is explained
        ((9, 36), 3, 0.0, 20_000, "undecided"),
        ((2, 3), 3, 0.4, 20_000, "not run"),
    ],
)
def test_valid_and_new_samples_stay_at_chance(
    tmp_path: Path, groups: Sequence[int], seeds: int, learned: float, memory: float, verdict: str
) -> None:
    found = GPTNeverLearned().judge(runs(tmp_path, groups, seeds, learned, memory))
    assert found.verdict == verdict, found


def test_one_learned_group_refutes_and_the_other_model_is_judged_apart(tmp_path: Path) -> None:
    both = Records([*runs(tmp_path, (12, 18, 36)), *runs(tmp_path, (9,), learned=0.9)])
    found = GPTNeverLearned().judge(both)
    assert found.verdict == "refuted" and np.argmax(list(found.values["excess"].values())) == 0
    assert DiTNeverLearned().judge(both).verdict == "not run"


def test_seeds_that_disagree_leave_it_open(tmp_path: Path) -> None:
    """One of three seeds learns parity of nine bits: neither never learned nor learned."""
    others = [*runs(tmp_path, (12, 18, 36)), *runs(tmp_path, (9,), seeds=2)]
    found = GPTNeverLearned().judge(Records([*others, *runs(tmp_path, (9,), seeds=1, learned=0.9, first=2)]))
    assert found.verdict == "undecided" and "seeds disagree at G=9, N=4,096" in found.measured


def test_a_rule_that_is_neither_learned_nor_copied_leaves_it_open(tmp_path: Path) -> None:
    both = Records([*runs(tmp_path, (9, 12, 18)), *runs(tmp_path, (36,), memory=1e9)])
    found = GPTNeverLearned().judge(both)
    assert found.verdict == "undecided" and "no copying yet: G=36" in found.measured


def test_runs_without_the_column_of_new_samples_say_nothing(tmp_path: Path) -> None:
    steps = log_steps(100, 60_000)
    columns = {"sample_accuracy": rise(steps, 9_000), "sample_memorization": rise(steps, 9_000)}
    one = simulated_run(tmp_path, "p1-gpt-mini", {"rule.group": 9}, steps, columns)
    assert GPTNeverLearned().judge(records([one])).verdict == "not run"
