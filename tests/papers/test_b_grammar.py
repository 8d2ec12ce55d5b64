"""P2's claims on a grammar over P: simulated curves that must pass, and that must fail."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from simulated import log_steps, records, rise, simulated_run, two_clocks_run

from twoclocks.papers.claim import Claim
from twoclocks.papers.early_stopping.b01_below import BelowSampleComplexity
from twoclocks.papers.early_stopping.b02_above import AboveSampleComplexity, StepsToValid
from twoclocks.papers.early_stopping.b07_law import LinearInStrings
from twoclocks.papers.early_stopping.fig04_grammar import GrammarSizes
from twoclocks.papers.early_stopping.fig06_phases import MeasuredPhases
from twoclocks.papers.early_stopping.runs import NARROW, RHM
from twoclocks.papers.figure import MissingRunsError
from twoclocks.papers.grids import grid_named
from twoclocks.papers.records import Record
from twoclocks.papers.scales import GPU
from twoclocks.runs.rows import StoredRun, identity, read_rows
from twoclocks.training.schedule import log_spaced

LAST = 131_072
ROWS = Path(__file__).parents[2] / "results" / "campaign"
CHANCE = {256: 0.001, 512: 0.002, 1024: 0.004, 2048: 0.008, 4096: 0.0156, 8192: 0.031, 16384: 0.0625}


def grammar_run(
    folder: Path,
    n: int,
    seed: int = 0,
    valid: float = math.inf,
    copied: float = math.inf,
    last: int = LAST,
    **change: object,
) -> StoredRun:
    """A run whose samples are valid and new from one step on, and copies from another; before that, by chance."""
    steps = log_steps(64, last)
    copies = rise(steps, copied, 4) if math.isfinite(copied) else np.zeros(len(steps))
    learned = rise(steps, valid, 4) if math.isfinite(valid) else np.zeros(len(steps))
    by_chance = CHANCE[n] * learned * (1 - copies)
    columns = {
        "sample_accuracy": copies + (1 - copies) * learned,
        "sample_memorization": copies + by_chance,
        "valid_new": (1 - copies) * learned * (1 - CHANCE[n]),
        "loss_train": 3 - 2 * learned - copies,
        "loss_held_out": 3 - 2 * learned + copies,
    }
    point = {"data.n": n, "training.seed": seed, **NARROW, "clocks.above_chance": True, **change}
    return simulated_run(folder, RHM, point, steps, columns)


def verdict(claim: Claim, runs: list[StoredRun]) -> str:
    return claim.judge(records(runs)).verdict


@pytest.mark.parametrize(
    ("valid", "copied", "seeds", "expected"),
    [
        (math.inf, 3_000, 3, "reproduced"),  # valid as copies alone
        (math.inf, 3_000, 2, "seen once"),
        (1_000, 30_000, 3, "refuted"),  # the rule comes long before
        (math.inf, math.inf, 3, "undecided"),  # the run is too short
        (math.inf, 100_000, 3, "undecided"),
    ],
)
def test_below_the_sample_complexity(tmp_path: Path, valid: float, copied: float, seeds: int, expected: str) -> None:
    runs = [grammar_run(tmp_path, n, seed, valid, copied) for n in (256, 512, 1024, 2048) for seed in range(seeds)]
    above = [grammar_run(tmp_path, 8192, seed, 5_000, math.inf) for seed in range(3)]  # says nothing about this claim
    assert verdict(BelowSampleComplexity(), runs + above) == expected
    assert verdict(BelowSampleComplexity(), above) == "not run"


def test_seeds_and_sizes_that_disagree(tmp_path: Path) -> None:
    good = [grammar_run(tmp_path, 256, seed, math.inf, 3_000) for seed in range(3)]
    bad = [grammar_run(tmp_path, 1024, seed, 1_000, 60_000) for seed in range(3)]
    assert verdict(BelowSampleComplexity(), good + bad) == "refuted"
    assert verdict(BelowSampleComplexity(), good + bad[:1]) == "undecided"  # one seed refutes nothing
    other = [grammar_run(tmp_path, 512, seed, math.inf, 3_000) for seed in range(2)]
    odd = [grammar_run(tmp_path, 512, 2, 1_000, 60_000)]
    assert verdict(BelowSampleComplexity(), good + other + odd) == "undecided"


@pytest.mark.parametrize(
    ("valid", "copied", "expected"),
    [
        (20_000, math.inf, "reproduced"),
        (20_000, 100_000, "reproduced"),
        (60_000, 10_000, "refuted"),  # copies first
        (math.inf, math.inf, "undecided"),  # neither by the end
        (math.inf, 10_000, "refuted"),
    ],
)
def test_above_the_sample_complexity(tmp_path: Path, valid: float, copied: float, expected: str) -> None:
    """Chance copies, one true string in 16 at the largest P, are no copying."""
    runs = [grammar_run(tmp_path, n, seed, valid, copied) for n in (4096, 8192, 16384) for seed in range(3)]
    assert verdict(AboveSampleComplexity(), runs) == expected


@pytest.mark.parametrize(("at", "expected"), [(1.0, "reproduced"), (12.0, "refuted"), (0.2, "refuted")])
def test_steps_to_valid_samples(tmp_path: Path, at: float, expected: str) -> None:
    reaches = (0.85 / 0.15) ** (1 / 4)  # a curve of ``rise`` is at 0.85 at this factor of its middle
    runs = [grammar_run(tmp_path, n, seed, 4096 * at / reaches) for n in (4096, 8192, 16384) for seed in range(3)]
    found = StepsToValid().judge(records(runs))
    assert found.verdict == expected, found
    low, high = found.values["P=4096"]
    assert low <= at <= high


def test_widths_are_reported_at_the_last_step_that_both_have(tmp_path: Path) -> None:
    """The wide network's run is shorter; at its end, half of its samples are valid and 1 / (1 + 2⁴) of the others."""
    narrow = [grammar_run(tmp_path, n, seed, 16_384) for n in (4096, 8192, 16384) for seed in range(3)]
    assert "channels" not in StepsToValid().judge(records(narrow)).measured
    wide = grammar_run(tmp_path, 4096, 0, 8192, last=8192, **{"model.width": 8192})
    found = StepsToValid().judge(records([*narrow, wide]))
    assert "P = 4,096, step 8,192: 50% with 8,192, 6% with 512" in found.measured, found.measured
    assert found.verdict == StepsToValid().judge(records(narrow)).verdict  # reported, not judged


def test_a_p_that_was_not_run_leaves_a_claim_open(tmp_path: Path) -> None:
    few = [grammar_run(tmp_path, 256, seed, math.inf, 3_000) for seed in range(3)]
    many = [grammar_run(tmp_path, 16384, seed, 4_096 / 1.54) for seed in range(3)]
    for claim, runs in ((BelowSampleComplexity(), few), (AboveSampleComplexity(), many), (StepsToValid(), many)):
        found = claim.judge(records(runs))
        assert found.verdict == "undecided" and "Missing: P = " in found.measured, found


@pytest.mark.parametrize(("power", "expected"), [(1.0, "reproduced"), (0.6, "refuted"), (1.5, "refuted")])
def test_law(tmp_path: Path, power: float, expected: str) -> None:
    """Perfectly linear onsets must pass, whatever scatter of a few percent the seeds have."""
    rng = np.random.default_rng(0)
    runs = [
        grammar_run(tmp_path, n, seed, math.inf, 20 * 256 * (n / 256) ** power * math.exp(0.05 * rng.normal()))
        for n in (256, 512, 1024, 2048)
        for seed in range(3)
    ]
    found = LinearInStrings().judge(records(runs))
    assert found.verdict == expected, found
    more = [*runs, *(grammar_run(tmp_path, 4096, seed) for seed in range(3))]  # a P without copies does not enter
    assert LinearInStrings().judge(records(more)).values["alpha"] == found.values["alpha"]
    assert LinearInStrings().judge(records(runs[:9])).verdict == "not run"


def test_longer_runs_are_evaluated_as_often_and_do_not_count_as_made() -> None:
    """Where runs are longer than they were, committed ones are read but do not cover them; the others stay done."""
    before = {256: 32_768, 512: 65_536, 1024: 131_072, 2048: 262_144, 4096: 262_144, 8192: 131_072, 16384: 131_072}
    rows = [one for one in map(Record, read_rows(ROWS)) if one.preset == RHM]
    for cell in grid_named("rhm-sizes").cells(GPU):
        n, last = cell.settings.data.n, cell.settings.training.steps
        assert last == {4096: 393_216, 8192: 262_144, 16384: 262_144}.get(n, before[n])
        now, then = cell.settings.schedule, log_spaced(64, before[n], 40)
        assert now[0] == then[0] and now[-1] == last
        spaced = (np.log(some[-1] / some[0]) / (len(some) - 1) for some in (now, then))
        assert next(spaced) == pytest.approx(next(spaced), rel=0.02)
        made = [one for one in rows if one.identity == identity(cell.settings) and one.last_step == before[n]]
        assert made and all(one.covers(cell) == (last == before[n]) for one in made)


def test_a_law_that_bends_is_no_law(tmp_path: Path) -> None:
    """Local powers of 0.75, 1 and 1.25 have a mean of 1."""
    taus = {256: 5_000, 512: 8_409, 1024: 16_818, 2048: 40_000}
    runs = [grammar_run(tmp_path, n, seed, math.inf, tau) for n, tau in taus.items() for seed in range(3)]
    found = LinearInStrings().judge(records(runs))
    assert found.verdict == "undecided" and "it bends" in found.measured, found


def test_other_settings_and_parts_do_not_mix(tmp_path: Path) -> None:
    others = [
        grammar_run(tmp_path, 256, 0, 1_000, 30_000, **{"training.learning_rate": 0.01}),
        grammar_run(tmp_path, 256, 1, 1_000, 30_000, **{"data.part": 1}),
        grammar_run(tmp_path, 256, 2, 1_000, 30_000, **{"model.layout": "mup"}),
    ]
    assert verdict(BelowSampleComplexity(), others) == "not run"


def test_the_figure_says_what_the_claims_say(tmp_path: Path) -> None:
    runs = [grammar_run(tmp_path, n, seed, 10_000, 20 * n) for n in (256, 4096) for seed in range(2)]
    figure = GrammarSizes()
    info = figure.data(records(runs))
    assert len(info.curves) == 4 and info.complexity == 4096
    caption = figure.caption(info)
    assert "P = 256" in caption and "P = 4,096" in caption and "seeds per P: 2 (training)" in caption
    drawn = figure.draw(info)
    assert len(drawn.axes) == 4 and len(drawn.axes[0].lines) == 2 * 4 + 1


def test_the_phase_diagram_has_the_phases_of_the_curves(tmp_path: Path) -> None:
    """A grammar: copies first with few strings, the rule first with many; parity beside it, without runs that stop."""
    runs = [grammar_run(tmp_path, 256, 1, math.inf, 3_000), grammar_run(tmp_path, 256, 0, math.inf, 3_000)]
    runs += [grammar_run(tmp_path, 16384, 0, 5_000, math.inf)]
    for group, stop in ((3, "memory"), (4, "rule")):
        change = {"rule.group": group, "data.n": 512, "clocks.stop": stop, "clocks.memory_threshold": 0.9}
        runs.append(two_clocks_run(tmp_path, "p1-gpt-mini", change, rule=300, memory=3_000, last=20_000))
    figure = MeasuredPhases()
    info = figure.data(records(runs))
    assert [(one.group, one.n) for one in info.runs] == [
        ("grammar (16, 4, 3, 2)", 256),
        ("grammar (16, 4, 3, 2)", 16384),
        ("GPT-mini, 3 bits", 512),
    ]
    few, many, parity = ([phase.name for phase in one.phases] for one in info.runs)
    assert "seed 0" in info.runs[0].seeds
    assert few[-1] == "memorization" and "generalization" not in few
    assert many[-1] == "generalization" and "memorization" not in many
    assert parity.index("generalization") < parity.index("memorization")
    assert info.runs[2].clocks.memory.upper < 3_000  # a tenth of the samples, not the 90% at which the run ends
    assert "GPT-mini, 3 bits: 1 N" in figure.caption(info) and len(figure.draw(info).axes) >= 2
    with pytest.raises(MissingRunsError):
        figure.data(records([]))
