"""Claim A9 on simulated phase diagrams over group size and N."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from simulated import clocks_run, records

from twoclocks.papers.records import Records
from twoclocks.papers.two_clocks.a09_window import DiTWindow, GPTWindow

SIZES = (512, 1024, 4096)
Rows = Mapping[int, str]  # by group size: o (open), e (empty), ? (ended early) or x (seeds disagree), one per N
TRUE = {2: "ooo", 4: "eoo", 6: "eeo", 9: "eee"}


def runs(folder: Path, rows: Rows, seeds: int = 3) -> Records:
    """GPT runs with τ_mem = 2·N, before or after τ_rule."""
    made = []
    for group, row in rows.items():
        for n, state in zip(SIZES, row, strict=True):
            for seed in range(seeds):
                is_open = state == "o" or (state == "x" and seed == 0)
                change = {"rule.group": group, "data.n": n, "training.seed": seed}
                rule, memory = (n / 2 if is_open else 8 * n, 2 * n) if state != "?" else (math.inf, math.inf)
                made.append(clocks_run(folder, "p1-gpt-mini", change, rule=rule, memory=memory, last=60_000))
    return records(made)


@pytest.mark.parametrize(
    ("rows", "seeds", "verdict"),
    [
        (TRUE, 3, "reproduced"),
        (TRUE, 1, "seen once"),
        ({2: "ooo", 4: "xeo", 6: "eeo", 9: "ee?"}, 3, "reproduced"),  # seeds that disagree are left out
        ({2: "ooo", 4: "ooe", 6: "eeo", 9: "eee"}, 3, "refuted"),  # it closes with N
        ({2: "eeo", 4: "eoo", 6: "eeo", 9: "eee"}, 3, "refuted"),  # it opens with G
        ({2: "ooo", 4: "ooo", 6: "ooo", 9: "ooo"}, 3, "refuted"),  # it never closes
        ({2: "eoo", 4: "eoo", 6: "eoo", 9: "eoo"}, 3, "refuted"),  # it does not close with G
        ({2: "ooo", 4: "ooo", 6: "eee", 9: "eee"}, 3, "refuted"),  # it never reopens
        ({2: "ooo", 4: "o?o", 6: "?ee", 9: "eee"}, 3, "undecided"),  # it may reopen where runs ended early
        ({2: "ooo", 3: "ooo"}, 3, "undecided"),  # nothing here should close
        ({2: "ooo", 3: "ooo", 9: "eee"}, 3, "undecided"),  # nothing here should reopen
        ({4: "ooo", 6: "ooo", 9: "ooo"}, 3, "refuted"),
        ({2: "???", 4: "???"}, 3, "not run"),
    ],
)
def test_the_phase_diagram(tmp_path: Path, rows: Rows, seeds: int, verdict: str) -> None:
    made = runs(tmp_path, rows, seeds)
    found = GPTWindow().judge(made)
    assert found.verdict == verdict, found
    assert DiTWindow().judge(made).verdict == "not run"


def test_small_groups_alone_refute_nothing(tmp_path: Path) -> None:
    """Three seeds where the window is always open, two where it closes and reopens as the paper says."""
    few = {group: row for group, row in TRUE.items() if group > 2}
    both = Records([*runs(tmp_path, {2: "ooo", 3: "ooo"}), *runs(tmp_path, few, seeds=2)])
    assert GPTWindow().judge(both).verdict == "seen once"
