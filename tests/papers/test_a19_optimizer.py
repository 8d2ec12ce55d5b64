"""Claim A19 on sweeps with known clocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import records, two_clocks_run

from twoclocks.papers.intervals import Interval
from twoclocks.papers.records import Records
from twoclocks.papers.scales import DESK
from twoclocks.papers.two_clocks.a19_optimizer import NO_WINDOW, DiTRate, GPTRate, WideningDecay, has_interior_maximum

Clocks = tuple[float, float]  # steps at which validity and copies are at a half
NEVER = np.inf


def sweep(
    folder: Path, preset: str, swept: str, clocks: Mapping[float, Clocks], seeds: int, n: int = 4096, **more: Any
) -> Records:
    """Runs at G = 6 whose onsets scatter by 3%; ``other``: more settings."""
    other = more.pop("other", {})
    more = {"last": 300_000 if "dit" in preset else 40_000, **more}
    found = []
    for value, (rule, memory) in clocks.items():
        for seed in range(seeds):
            scatter = float(np.exp(np.random.default_rng(seed).normal(0, 0.03)))
            change = {"rule.group": 6, "data.n": n, "training.seed": seed, f"training.{swept}": value, **other}
            found.append(two_clocks_run(folder, preset, change, rule=rule * scatter, memory=memory / scatter, **more))
    return records(found)


DIT_RATES = {3e-5: (60_000, 2e5), 1e-4: (20_000, 1e5), 3e-4: (40_000, 9e4), 3e-3: (NEVER, NEVER)}


@pytest.mark.parametrize(
    ("change", "seeds", "verdict"),
    [
        ({}, 3, "reproduced"),
        ({}, 1, "seen once"),
        ({3e-4: (10_000, 5e4)}, 3, "refuted"),  # another rate is faster
        ({1e-4: (NEVER, 15_000)}, 3, "refuted"),  # valid at 15,000, but only by copying
        ({3e-4: (20_300, 5e4)}, 3, "undecided"),
    ],
)
def test_rates_of_dit(tmp_path: Path, change: dict[float, Clocks], seeds: int, verdict: str) -> None:
    found = DiTRate().judge(sweep(tmp_path, "p1-dit-mini", "learning_rate", {**DIT_RATES, **change}, seeds))
    assert found.verdict == verdict, found


@pytest.mark.parametrize(
    ("fast", "verdict"), [(1e-4, "reproduced"), (3e-4, "reproduced"), (1e-3, "refuted"), (3e-5, "refuted")]
)
def test_rates_of_gpt(tmp_path: Path, fast: float, verdict: str) -> None:
    """The baseline is 1e-4 or 3e-4: either may be the fastest."""
    clocks = {rate: (800 if rate == fast else 3_000, 9_000) for rate in (3e-5, 1e-4, 3e-4, 1e-3)}
    found = GPTRate().judge(sweep(tmp_path, "p1-gpt-mini", "learning_rate", clocks, 3))
    assert found.verdict == verdict, found


@pytest.mark.parametrize(
    ("memory", "seeds", "verdict"),
    [
        ((4_000, 6_000, 12_000, 5_000), 3, "reproduced"),
        ((4_000, 6_000, 12_000, 5_000), 1, "seen once"),
        ((4_000, 6_000, NEVER, 5_000), 3, "reproduced"),  # copying never began
        ((4_000, 6_000, 12_000, 30_000), 3, "refuted"),  # it widens to the end
        ((12_000, 6_000, 5_000, 4_000), 3, "refuted"),  # it narrows
        ((4_000, 6_000, NEVER, NEVER), 3, "undecided"),
        ((6_000, 6_000, 6_000, 6_000), 3, "undecided"),
    ],
)
def test_weight_decay(tmp_path: Path, memory: tuple[float, ...], seeds: int, verdict: str) -> None:
    clocks = {decay: (500, at) for decay, at in zip((0.0, 0.01, 0.1, 1.0), memory, strict=True)}
    found = WideningDecay().judge(sweep(tmp_path, "p1-gpt-mini", "weight_decay", clocks, seeds))
    assert found.verdict == verdict, found


def test_a_rule_that_is_learned_by_copying_has_no_window_and_one_that_is_not_seen_may_have_one(tmp_path: Path) -> None:
    """Neither a run that ended before both clocks nor one that went on for long without them shows a narrow window."""
    inside = {0.1: (500.0, 9_000.0)}
    for name, ends, last, verdict in (
        ("copied", (NEVER, 4_000), 40_000, "reproduced"),
        ("never", (NEVER, NEVER), 40_000, "undecided"),
        ("ended", (500, 9_000), 300, "undecided"),
    ):
        outside = sweep(tmp_path / name, "p1-gpt-mini", "weight_decay", {0.0: ends, 1.0: ends}, 3, last=last)
        found = WideningDecay().judge(
            Records([*outside, *sweep(tmp_path / name, "p1-gpt-mini", "weight_decay", inside, 3)])
        )
        assert found.verdict == verdict, (name, found)


def test_a_window_that_opens_where_another_is_closed_is_wider() -> None:
    """τ_mem lies after its lower end: with the lower end at τ_rule, the window is longer than none at all."""
    assert has_interior_maximum([NO_WINDOW, Interval(1, 3), NO_WINDOW]) == "yes"
    assert has_interior_maximum([NO_WINDOW, Interval(0.9, 3), NO_WINDOW]) == "undecided"


def test_sweeps_of_other_settings_do_not_count(tmp_path: Path) -> None:
    rates = sweep(tmp_path, "p1-gpt-mini", "learning_rate", {1e-5: (1, 2e4), 1e-4: (500, 1e4), 1e-3: (9, 1e4)}, 1)
    assert WideningDecay().judge(rates).verdict == "not run"  # one weight decay only
    assert DiTRate().judge(rates).verdict == "not run"
    for claim in (DiTRate(), GPTRate(), WideningDecay()):
        assert claim.judge(records([])).verdict == "not run"


def test_only_the_baseline_of_the_scale_is_judged(tmp_path: Path) -> None:
    """Scattered groups and other parts of the data are other experiments; a small scale has a rate of its own."""
    own = sweep(tmp_path, "p1-dit-mini", "learning_rate", DIT_RATES, 3)
    fast = dict.fromkeys((1e-5, 3e-4, 1e-3), (2_000.0, 1e5))
    others: list[dict[str, Any]] = [{"rule.scatter_seed": 0}, {"data.part": 1}, {"data.omit": 1}]
    for other in others:
        noise = sweep(tmp_path, "p1-dit-mini", "learning_rate", fast, 3, other=other)
        assert DiTRate().judge(Records([*own, *noise])).verdict == "reproduced", other
    for preset, claim in (("p1-dit-mini", DiTRate()), ("p1-gpt-mini", GPTRate())):
        baseline = DESK.cell(preset, {}).settings.training.learning_rate
        desk = {1e-4: (60_000.0, 2e5), baseline: (20_000.0, 1e5), 3e-3: (NEVER, NEVER)}
        few = {rate: (clocks[0] / 10, clocks[1] / 10) for rate, clocks in desk.items()}
        small = sweep(tmp_path / "desk", preset, "learning_rate", few, 3, n=512, scale=DESK)
        assert claim.judge(Records(small, DESK)).verdict == "reproduced"


def test_a_run_that_diverged_has_learned_nothing(tmp_path: Path) -> None:
    fast = sweep(tmp_path, "p1-dit-mini", "learning_rate", {1e-3: (5_000, 9e4)}, 3, status="diverged")
    found = DiTRate().judge(Records([*sweep(tmp_path, "p1-dit-mini", "learning_rate", DIT_RATES, 3), *fast]))
    assert found.verdict == "reproduced" and "0.001: never" in found.measured
    decays = {0.0: (500.0, 4_000.0), 0.1: (500.0, 9_000.0)}
    wide = sweep(tmp_path, "p1-gpt-mini", "weight_decay", {1.0: (500, 30_000)}, 3, status="diverged")
    ended = Records([*sweep(tmp_path, "p1-gpt-mini", "weight_decay", decays, 3), *wide])
    assert WideningDecay().judge(ended).verdict == "reproduced"
