"""Which parity runs the claims compare, and what they take from runs that ended early or copied first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from simulated import clocks_run, records

from twoclocks.papers import two_clocks
from twoclocks.papers.as_printed import STRUCTURED, printed_clocks
from twoclocks.papers.claim import CLAIMS
from twoclocks.papers.records import Records
from twoclocks.papers.scales import DESK, GPU, SMOKE
from twoclocks.papers.times import rule_and_memory
from twoclocks.papers.two_clocks.parity import Reading, points, points_to_memory, points_to_rule

assert two_clocks.__doc__  # importing it registers the claims


def run(folder: Path, change: dict[str, Any], rule: float = 300, memory: float = 3_000, **more: Any) -> Records:
    preset = more.pop("preset", "p1-dit-mini")
    return records([clocks_run(folder, preset, change, rule=rule, memory=memory, **{"last": 20_000, **more})])


def test_only_group_n_seeds_and_length_may_differ(tmp_path: Path) -> None:
    own: list[dict[str, Any]] = [
        {"rule.group": 9},
        {"data.n": 64},
        {"data.seed": 1},
        {"training.seed": 1},
        {"training.steps": 7_000},
        {"training.precision": "float32"},
        {"data.n": 128, "training.average": 0.999},
        {"clocks.stop": "memory", "evaluation.first": 5},
    ]
    others: list[dict[str, Any]] = [
        {"objective.sigma_data": 0.5},
        {"training.learning_rate": 3e-4},
        {"training.batch": 64},
        {"training.optimizer": "adamw", "training.weight_decay": 1e-3},
        {"rule.length": 24},
        {"rule": {"name": "exact_k", "length": 36, "k": 9}},
        {"data.part": 1},
        {"rule.scatter_seed": 0},
        {"data.omit": 1},
        {"model.depth": 3},
    ]
    every = Records(one for change in own + others for one in run(tmp_path, change))
    found = every.baseline("p1-dit-mini")
    assert {one.identity for one in found} == {one.identity for change in own for one in run(tmp_path, change)}
    assert not every.baseline("p1-gpt-mini")


def test_scales_are_not_mixed(tmp_path: Path) -> None:
    every = [one for scale in (GPU, DESK, SMOKE) for one in run(tmp_path, {"data.n": 32}, scale=scale)]
    for scale, batch in ((GPU, 256), (DESK, 32), (SMOKE, 8)):
        found = Records(every, scale).baseline("p1-dit-mini")
        assert [one.value("training.batch") for one in found] == [batch]


def test_a_family_is_the_one_nearest_to_the_preset(tmp_path: Path) -> None:
    """With as many values, plain runs come before more runs on transposed data, and the scale is kept."""
    plain: list[dict[str, Any]] = [{"encoding": encoding} for encoding in ("scalar", "one_hot")]
    turned = [{**one, "data.transposed": True, "training.seed": seed} for one in plain for seed in (0, 1)]
    for scale in (GPU, SMOKE):
        made = [one for change in turned + plain for one in run(tmp_path, change, preset="p1-dit-latin", scale=scale)]
        found = Records(made, scale).family(("encoding.",))
        assert [one.value("data.transposed") for one in found] == [False, False] and found.scale is scale
        assert len(Records(made, scale).alike(made[0].settings, ("encoding.",))) == 4
    assert len(Records([]).family(("rule.",))) == 0


def test_a_rule_that_comes_after_memory_does_not_count(tmp_path: Path) -> None:
    (one,) = run(tmp_path, {}, rule=9_000, memory=1_000)
    read = Reading(one)
    assert read.clocks.learned_by_memory and not read.rule.seen and read.rule.lower == read.memory.lower


def test_runs_that_ended_early_as_planned_do_not_enter(tmp_path: Path) -> None:
    """Of the same N for τ_mem, and of the same G for τ_rule; long runs without an onset do."""
    seen = run(tmp_path, {"rule.group": 3})
    short = run(tmp_path, {"rule.group": 9}, memory=math.inf, rule=math.inf, last=200)
    late = run(tmp_path, {"rule.group": 18}, memory=math.inf, rule=math.inf)
    found = points_to_memory(Records([*seen, *short, *late]))
    assert [group for group, _ in found] == [3, 18] and math.isinf(found[18, 4096].memory.high)
    again = run(tmp_path, {"training.seed": 1}, rule=math.inf, memory=math.inf, last=200)
    three = Records([*seen, *again])
    assert len(points_to_rule(three)[3, 4096].readings) == 1
    both = points(three)[3, 4096]
    assert len(both.readings) == 2 and both.rule == points(seen)[3, 4096].rule and both.memory.high < 4_000


def test_every_claim_judges_no_runs_and_runs_that_show_nothing(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [{"rule.group": group, "data.n": n} for group in (2, 3, 36) for n in (8, 16)]
    silent = Records(
        one
        for preset in ("p1-dit-mini", "p1-gpt-mini")
        for change in changes
        for one in run(tmp_path, change, math.inf, math.inf, scale=SMOKE, last=6, preset=preset)
    )
    for name, claim in CLAIMS.items():
        nothing = claim().judge(Records([]))
        assert nothing.verdict == "not run" and nothing.measured.startswith("not run yet: "), name
        assert claim().judge(silent).verdict in ("not run", "undecided"), name


def test_runs_that_diverged_have_no_clocks(tmp_path: Path) -> None:
    every = Records([*run(tmp_path, {}), *run(tmp_path, {"training.seed": 1}, status="diverged")])
    for choose in (points, points_to_memory, points_to_rule):
        assert [one.record.seed for one in choose(every)[3, 4096].readings] == [0]


def test_clocks_are_the_papers_whatever_threshold_a_run_has(tmp_path: Path) -> None:
    """A run that stops at, or reports, another accuracy has the same curve; structured rules ask for 0.85."""
    plain, other = (run(tmp_path, {"clocks.rule_threshold": at}, last=6_000)[0] for at in (0.9, 0.5))
    assert plain.run.clocks().rule != other.run.clocks().rule
    assert printed_clocks(plain) == printed_clocks(other) and Reading(other).rule == Reading(plain).rule
    assert printed_clocks(other, STRUCTURED).rule.threshold == STRUCTURED
    assert rule_and_memory(Records([plain])) == rule_and_memory(Records([other]))
