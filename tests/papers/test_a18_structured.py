"""Claim A18 on grids whose rows and columns are learned, and copied, at known steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run

from twoclocks.papers.records import Records
from twoclocks.papers.scales import DESK
from twoclocks.papers.two_clocks.a18_structured import OneHotLater, RowsAlone, RowsFirst, wanted_cases
from twoclocks.runs.rows import StoredRun

Order = Callable[[bool, int], tuple[float, float]]  # transposed?, seed -> steps of rows and columns
RULES: dict[str, dict[str, Any]] = {
    "latin": {"name": "latin", "side": 6},
    "latin_cyclic": {"name": "latin_cyclic", "side": 6},
    "sudoku": {"name": "sudoku"},
    "sudoku_cyclic": {"name": "sudoku_cyclic"},
    "row_latin": {"name": "row_latin", "side": 6},
}


def one_run(
    folder: Path, rule: str, encoding: str, seed: int, turned: bool = False, memory: float = np.inf, **at: Any
) -> StoredRun:
    """A run that learns each kind of pieces at a step, and copies from another."""
    steps = log_steps(50, 40_000)
    copied = rise(steps, memory) if np.isfinite(memory) else np.zeros(len(steps))
    more = {name: at.pop(name) for name in ("scale", "status") if name in at}
    other = at.pop("other", {})
    columns = {f"{kind}_accuracy": 0.99 * rise(steps, step) for kind, step in at.items()}
    columns |= {"sample_accuracy": np.min([*columns.values()], axis=0), "sample_memorization": copied}
    change = {"rule": RULES[rule], "encoding": encoding, "training.seed": seed, "data.transposed": turned, **other}
    preset = {"latin": "latin", "sudoku": "sudoku", "row": "row-latin"}[rule.split("_")[0]]
    return simulated_run(folder, f"p1-dit-{preset}", change, steps, columns, **more)


def grids(folder: Path, order: Order, seeds: int = 3, turned: tuple[bool, ...] = (False, True)) -> Records:
    found = []
    for rule, encoding, is_turned in wanted_cases():
        for seed in range(seeds) if is_turned in turned else ():
            rows, columns = order(is_turned, seed)
            found.append(one_run(folder, rule, encoding, seed, is_turned, row=rows, column=columns))
    return records(found)


@pytest.mark.parametrize(
    ("order", "seeds", "turned", "verdict"),
    [
        (lambda turned, seed: (1_000, 5_000), 3, (False, True), "reproduced"),
        (lambda turned, seed: (1_000, 5_000), 1, (False, True), "seen once"),
        (lambda turned, seed: (1_000, 5_000), 3, (False,), "undecided"),  # it may be the sampler or a coin flip
        (lambda turned, seed: (5_000, 1_000) if turned else (1_000, 5_000), 3, (False, True), "refuted"),  # the data
        (lambda turned, seed: (5_000, 1_000) if seed == 1 else (1_000, 5_000), 3, (False, True), "refuted"),  # a coin
        (lambda turned, seed: (1_000, 1_000), 3, (False, True), "undecided"),
    ],
)
def test_rows_first(tmp_path: Path, order: Order, seeds: int, turned: tuple[bool, ...], verdict: str) -> None:
    found = RowsFirst().judge(grids(tmp_path, order, seeds, turned))
    assert found.verdict == verdict, found


def test_missing_cases_are_named(tmp_path: Path) -> None:
    found = RowsFirst().judge(grids(tmp_path, lambda turned, seed: (1_000, 5_000), turned=(False,)))
    assert "missing: latin scalar, transposed" in found.measured
    assert RowsFirst().judge(records([])).verdict == "not run"


@pytest.mark.parametrize(
    ("at", "seeds", "verdict"),
    [(600, 3, "reproduced"), (600, 1, "seen once"), (3_000, 3, "refuted"), (800, 3, "undecided")],
)
def test_rows_alone(tmp_path: Path, at: float, seeds: int, verdict: str) -> None:
    found = RowsAlone().judge(records([one_run(tmp_path, "row_latin", "scalar", s, row=at) for s in range(seeds)]))
    assert found.verdict == verdict, found
    assert RowsAlone().judge(records([])).verdict == "not run"


@pytest.mark.parametrize(
    ("scalar", "one_hot", "rules", "verdict"),
    [
        (5_000, 15_000, ("latin", "sudoku"), "reproduced"),
        (5_000, np.inf, ("latin", "sudoku"), "reproduced"),  # beyond the end of the run
        (5_000, 15_000, ("latin",), "undecided"),  # Sudoku is missing
        (15_000, 5_000, ("latin", "sudoku"), "refuted"),
        (5_000, 5_000, ("latin", "sudoku"), "undecided"),
        (np.inf, np.inf, ("latin", "sudoku"), "not run"),  # neither copies
    ],
)
def test_one_hot(tmp_path: Path, scalar: float, one_hot: float, rules: tuple[str, ...], verdict: str) -> None:
    runs = [
        one_run(tmp_path, rule, encoding, seed, memory=memory, row=1_000, column=2_000)
        for rule in rules
        for encoding, memory in (("scalar", scalar), ("one_hot", one_hot))
        for seed in range(3)
    ]
    found = OneHotLater().judge(records(runs))
    assert found.verdict == verdict, found


def test_only_the_baseline_of_the_scale_is_judged(tmp_path: Path) -> None:
    """Another part of the data, or another width, is another experiment; a small scale has settings of its own."""
    own = [one_run(tmp_path, "row_latin", "scalar", seed, row=600) for seed in range(3)]
    others: list[dict[str, Any]] = [{"data.part": 1}, {"model.depth": 3}, {"training.batch": 64}]
    late = [one_run(tmp_path, "row_latin", "scalar", 0, row=9_000, other=other) for other in others]
    ended = one_run(tmp_path, "row_latin", "scalar", 3, row=9_000, status="diverged")
    assert RowsAlone().judge(records([*own, *late, ended])).verdict == "reproduced"
    assert RowsAlone().judge(records(late)).verdict == "not run"
    small = [one_run(tmp_path / "desk", "row_latin", "scalar", seed, row=600, scale=DESK) for seed in range(3)]
    assert RowsAlone().judge(Records(records(small), DESK)).verdict == "reproduced"
