"""B6 on one hidden layer: claims on gaps whose law is known, and real small runs beside the kernel's prediction."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from papers.simulated import log_steps, records, simulated_run

from twoclocks.papers.claim import Claim
from twoclocks.papers.early_stopping.b06_kernel import IndependentOfBatch, InverseInNoise, KernelPower, LinearInPoints
from twoclocks.papers.early_stopping.kernel_prediction import predicted_gap_onset
from twoclocks.papers.early_stopping.kernel_runs import (
    LIMITS,
    axis_runs,
    gap_onset_of,
    kernel_batch,
    kernel_noise,
    kernel_size,
)
from twoclocks.papers.records import Record
from twoclocks.papers.scales import GPU
from twoclocks.runs import load_settings, run
from twoclocks.runs.rows import StoredRun
from twoclocks.sweeps.grid import Cell

CLAIMS = (LinearInPoints, InverseInNoise, IndependentOfBatch)
CELLS = {"size": kernel_size, "noise": kernel_noise, "batch": kernel_batch}
CHECKED = ("data.n", "training.batch", "objective.sigma", "training.seed", "data.seed")


def gap_run(folder: Path, preset: str, point: dict[str, Any], tau: float) -> StoredRun:
    """A run whose losses part by 0.1 at the step ``tau``."""
    steps = log_steps(max(1, int(tau / 8)), int(6 * tau), 48)
    ones = np.ones(len(steps))
    columns = {
        **{"sample_accuracy": ones, "sample_memorization": 0 * ones, "valid_new": ones},
        **{"loss_train": ones, "loss_held_out": 1 + 0.1 * (np.array(steps) / tau) ** 2},
    }
    return simulated_run(folder, preset, point, steps, columns)


@cache
def planned(axis: str) -> tuple[Cell, ...]:
    """The runs of an axis; to build their settings takes longer than all else here."""
    return tuple(CELLS[axis](GPU))


def law_runs(folder: Path, claim: type[KernelPower], power: float, only: tuple[str, ...] = tuple(LIMITS)) -> list[Any]:
    """The runs of a claim, with τ as this power of its axis in ``only``, as claimed elsewhere, and 3% of scatter."""
    rng, found = np.random.default_rng(1), []
    for cell in planned(claim.axis):
        preset = cell.settings.name
        place = {"size": cell.point["data.n"], "noise": cell.point["objective.sigma"]}.get(
            claim.axis, cell.point["training.batch"]
        )
        exponent = power if preset in only else claim.claimed
        tau = 2000 * float(place) ** exponent * {"size": 1 / 128, "noise": 0.1, "batch": 1.0}[claim.axis]
        found.append(gap_run(folder, preset, cell.point, tau * math.exp(0.03 * rng.normal())))
    return found


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(("off", "expected"), [(0.05, "reproduced"), (-0.4, "refuted")])
def test_a_power_is_judged(tmp_path: Path, claim: type[KernelPower], off: float, expected: str) -> None:
    found = claim().judge(records(law_runs(tmp_path, claim, claim.claimed + off)))
    assert found.verdict == expected and found.seeds.words == "3 (data and training)", found
    assert set(found.values) == set(LIMITS)
    for one in found.values.values():
        assert one["power"]["power"] == pytest.approx(claim.claimed + off, abs=0.05)
        assert one["other_thresholds"]["0.2"]["power"] == pytest.approx(claim.claimed + off, abs=0.05)


@pytest.mark.parametrize("claim", CLAIMS)
def test_one_limit_that_says_no_decides(tmp_path: Path, claim: type[KernelPower]) -> None:
    runs = law_runs(tmp_path, claim, claim.claimed + 0.5, only=("p2-kernel-mean-field",))
    assert claim().judge(records(runs)).verdict == "refuted"


@pytest.mark.parametrize("claim", CLAIMS)
def test_few_runs_decide_little(tmp_path: Path, claim: type[KernelPower]) -> None:
    assert claim().judge(records([])).verdict == "not run"
    runs = law_runs(tmp_path, claim, claim.claimed)
    lazy = [one for one in runs if one.settings.name == "p2-kernel"]
    assert "mean-field" in claim().judge(records(lazy)).measured
    one_seed = [one for one in runs if one.settings.training.seed == 0]
    assert claim().judge(records(one_seed)).verdict in ("seen once", "undecided")


def test_an_axis_holds_no_run_of_another(tmp_path: Path) -> None:
    every: list[StoredRun] = []
    for claim in CLAIMS:
        every += law_runs(tmp_path, claim, claim.claimed)
    for claim in CLAIMS:
        for preset in LIMITS:
            runs = axis_runs(records(every), preset, claim.axis)
            assert len(runs.records) == len(planned(claim.axis)) // len(LIMITS)
            names = {"size": "data.n", "noise": "objective.sigma", "batch": "training.batch"}
            for name in CHECKED[:3]:
                values = {one.value(name) for one in runs.records}
                moves = name == names[claim.axis] or (claim.axis == "size" and name == "training.batch")
                assert (len(values) > 1) == moves, (claim.axis, name, values)


def test_batches_are_no_larger_than_the_data_and_runs_last_beyond_the_onset() -> None:
    cells: list[Cell] = [cell for axis in CELLS for cell in planned(axis)]
    for cell in cells:
        settings = cell.settings
        assert settings.training.distinct and settings.training.batch <= settings.data.n
        assert settings.training.steps >= 20 * settings.data.n * math.sqrt(0.032) / cell.point["objective.sigma"]


def test_every_claim_says_what_would_refute_it() -> None:
    for claim in CLAIMS:
        assert issubclass(claim, Claim) and "±0.15" in claim.criterion and claim.figures


@pytest.mark.parametrize("n", [8, 32])
def test_a_real_run_has_the_onset_that_the_kernel_predicts(tmp_path: Path, n: int) -> None:
    """128 units in 16 dimensions are few, so the onset is not exact; a wrong power of P or of the rate would be off."""
    change = {
        **{"rule.alphabet": 1024, "encoding.dimension": 16, "model.width": 128, "data.n": n, "objective.sigma": 0.2},
        **{"objective.sampler_steps": 2, "training.batch": n, "training.learning_rate": 3.0, "training.steps": 600},
        **{"training.device": "cpu", "evaluation.samples": 200, "evaluation.evaluations": 16, "evaluation.first": 20},
        **{"evaluation.loss_rows": 512, "evaluation.keep_weights": 0, "clocks.above_chance": True},
    }
    settings = load_settings("p2-kernel", change)
    found = gap_onset_of(Record(run(settings, tmp_path / "run")), 0.1)
    assert found.estimate == pytest.approx(predicted_gap_onset(settings, 0.1), rel=0.35), found
