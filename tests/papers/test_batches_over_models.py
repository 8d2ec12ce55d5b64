"""Sweeps over the batch: simulated powers of the batch, unfair runs, and the figure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from simulated import EARLIER, LATER, records, two_clocks_run

from twoclocks.papers.claim import CLAIMS
from twoclocks.papers.early_stopping.a08_batches import DiTBatches, GPTBatches, GrammarBatches, SamplesSeen
from twoclocks.papers.early_stopping.batch_runs import BatchSweep
from twoclocks.papers.early_stopping.fig_batches import Batches
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.grids import grid_named
from twoclocks.papers.scales import GPU, SCALES
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.runs.rows import StoredRun

ALL = (GrammarBatches(), DiTBatches(), GPTBatches())


def swept(
    folder: Path, sweep: BatchSweep, power: float, batches: Iterable[int] = (), seeds: int = 3, rule: float = 200
) -> list[StoredRun]:
    """Runs whose τ_mem is a power of the batch, with a few percent between seeds."""
    return [
        two_clocks_run(
            *(folder, sweep.preset, {**cell.point, **sweep.shared}),
            rule=rule / LATER,
            memory=4_000 * (batch / 128) ** power * (1 + 0.02 * seed) / EARLIER,
            last=sweep.shared["training.steps"],
        )
        for cell in sweep.cells(GPU)
        for batch, seed in [(cell.settings.training.batch, cell.settings.training.seed)]
        if seed < seeds and (not batches or batch in batches)
    ]


@pytest.mark.parametrize("claim", ALL, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("power", "verdict", "answer"),
    [(-1.0, "reproduced", "samples"), (-0.5, "refuted", "neither"), (0.0, "refuted", "steps")],
)
def test_powers(tmp_path: Path, claim: SamplesSeen, power: float, verdict: str, answer: str) -> None:
    found = claim.judge(records(swept(tmp_path, claim.sweep, power)))
    assert found.verdict == verdict and found.values["answer"] == answer, found
    assert found.values["batch_power"] == pytest.approx(power, abs=0.05) and found.seeds == 3
    assert found.values["n"] == claim.sweep.n and "left out" not in found.measured  # all runs have N ≥ batch
    json.dumps(found.values, allow_nan=False)
    others = [one for one in ALL if one is not claim]  # no sweep takes the runs of another
    assert all(one.judge(records(swept(tmp_path, claim.sweep, power))).verdict == "not run" for one in others)


def test_few_seeds_batches_or_rules_decide_nothing(tmp_path: Path) -> None:
    claim = GPTBatches()
    sweep = claim.sweep
    every = sweep.batches(GPU)
    assert every == [16, 32, 64, 128, 256]

    def verdict(name: str, **options: object) -> str:
        return claim.judge(records(swept(tmp_path / name, sweep, -1.0, **options))).verdict  # type: ignore[arg-type]

    assert verdict("one seed", seeds=1) == "seen once"
    assert verdict("two batches", batches=every[:2]) == "not run"
    assert verdict("four batches", batches=every[:4]) == "undecided"  # the largest batch was not run
    assert verdict("no rule", rule=25_000) == "undecided"  # copies come first, in all runs
    assert "without a fair run" not in claim.judge(records(swept(tmp_path, sweep, -1.0))).measured.lower()
    late = claim.judge(records(swept(tmp_path / "late rule", sweep, -1.0, rule=3_000)))
    assert "left out: batch 256 (the rule is not learned before τ_mem)" in late.measured
    assert late.verdict == "undecided" and "Without a fair run: batch 256" in late.measured
    steps = claim.judge(records(swept(tmp_path / "steps", sweep, 0.0, batches=every[:4])))
    assert steps.verdict == "undecided" and "Without a fair run: batch 256" in steps.measured
    assert claim.judge(records(swept(tmp_path / "all steps", sweep, 0.0))).verdict == "refuted"


def test_other_settings_do_not_mix(tmp_path: Path) -> None:
    sweep = GPTBatches().sweep
    for change in ({"training.learning_rate": 3e-4}, {"data.n": 1024}, {"rule.group": 2}, {"data.part": 1}):
        runs = [
            two_clocks_run(tmp_path, sweep.preset, {**cell.point, **change}, rule=100, memory=900, last=30_000)
            for cell in sweep.cells(GPU)
        ]
        assert GPTBatches().judge(records(runs)).verdict == "not run", change


def test_the_runs_are_fair_at_every_scale() -> None:
    """N ≥ batch; and P is above the P* of the grammar, so that its rules can be learned before τ_mem."""
    for claim in ALL:
        assert CLAIMS.get(next(name for name, one in CLAIMS.items() if one is type(claim)))
        for scale in SCALES.values():
            cells = grid_named(claim.grids[0]).cells(scale)
            assert all(cell.settings.data.n >= cell.settings.training.batch for cell in cells)
        assert all(cell.settings.clocks.stop == "memory" for cell in grid_named(claim.grids[0]).cells(GPU))
    rule = next(iter(GrammarBatches().sweep.cells(GPU))).settings.rule
    assert isinstance(rule, RandomHierarchy) and rule.sample_complexity(rule.depth) == 512


def test_the_figure_shows_what_there_is(tmp_path: Path) -> None:
    figure = Batches()
    with pytest.raises(MissingRunsError):
        figure.data(records([]))
    info = figure.data(records(swept(tmp_path, GPTBatches().sweep, -0.5)))
    assert [panel.law is not None for panel in info] == [False, False, True]
    caption = figure.caption(info)
    assert "missing: batch 32, 64, 128, 256, 512" in caption and "seeds per batch: 3 (training)" in caption
    assert len(figure.draw(info).axes) == 3
