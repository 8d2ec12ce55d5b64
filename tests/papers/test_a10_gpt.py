"""Claim A10 on simulated runs of both kinds of models on the same data."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a10_gpt import ShorterAndSharper

# τ_rule, τ_mem (middles of the curves), sharpness of copying, last step
SLOW = (9_000.0, 80_000.0, 2.0, 1_000_000)
FAST = (600.0, 5_000.0, 8.0, 30_000)
Curves = tuple[float, float, float, int]


def runs(folder: Path, preset: str, curves: Curves, seeds: int = 3, n: int = 512) -> Records:
    rule, memory, sharpness, last = curves
    steps = log_steps(30, last, 90)
    copied = rise(steps, memory, sharpness) if math.isfinite(memory) else 0 * rise(steps, 1.0)
    valid = rise(steps, rule, 16).clip(min=copied)
    columns = {"sample_accuracy": valid, "sample_memorization": copied, "valid_new": valid - copied}
    change = {"data.n": n}
    return records(
        [simulated_run(folder, preset, {**change, "training.seed": k}, steps, columns) for k in range(seeds)]
    )


@pytest.mark.parametrize(
    ("dit", "gpt", "seeds", "verdict"),
    [
        (SLOW, FAST, 3, "reproduced"),
        (SLOW, FAST, 1, "seen once"),
        (SLOW, (600.0, 400_000.0, 8.0, 900_000), 3, "refuted"),  # a longer window
        (SLOW, (600.0, 5_000.0, 1.5, 90_000), 3, "refuted"),  # a slower onset
        (SLOW, (600.0, 5_000.0, 2.0, 90_000), 3, "undecided"),  # the same factor
        (SLOW, (600.0, 5_000.0, 8.0, 4_500), 3, "undecided"),  # ended before 50%
        ((9_000.0, 80_000.0, 2.0, 30_000), FAST, 3, "undecided"),  # DiT ended soon after 10%
        ((9_000.0, math.inf, 2.0, 30_000), FAST, 3, "undecided"),  # a longer window, but no copies
        ((9_000.0, math.inf, 2.0, 10_000), FAST, 3, "not run"),  # too short for either
    ],
)
def test_shorter_windows_and_sharper_onsets(tmp_path: Path, dit: Curves, gpt: Curves, seeds: int, verdict: str) -> None:
    both = Records([*runs(tmp_path, "p1-dit-mini", dit, seeds), *runs(tmp_path, "p1-gpt-mini", gpt, seeds)])
    found = ShorterAndSharper().judge(both)
    assert found.verdict == verdict, found


def test_only_the_same_data_are_compared(tmp_path: Path) -> None:
    apart = [*runs(tmp_path, "p1-dit-mini", SLOW), *runs(tmp_path, "p1-gpt-mini", FAST, n=1024)]
    assert ShorterAndSharper().judge(Records(apart)).verdict == "not run"


def test_a_model_without_a_window_has_the_shorter_one(tmp_path: Path) -> None:
    """GPT copies before it learns the rule; the other way round, the claim fails; with neither, nothing is said."""
    closed = (40_000.0, 5_000.0, 8.0, 90_000)
    dit_closed = (400_000.0, 80_000.0, 2.0, 1_000_000)

    def judged(folder: str, dit: Curves, gpt: Curves) -> str:
        here = tmp_path / folder
        both = Records([*runs(here, "p1-dit-mini", dit), *runs(here, "p1-gpt-mini", gpt)])
        return ShorterAndSharper().judge(both).verdict

    assert judged("gpt", SLOW, closed) == "reproduced"
    assert judged("dit", dit_closed, FAST) == "refuted"
    assert judged("both", dit_closed, closed) == "undecided"
