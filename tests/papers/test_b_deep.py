"""P2's claims on a deep grammar, on twins and on production rules: simulated truth, and real runs of a few steps."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from simulated import log_steps, records, rise, simulated_run

from twoclocks.clocks.onset import Onset
from twoclocks.core.seeds import numpy_stream
from twoclocks.papers.early_stopping.b03_layers import LayerByLayer, layer_by_layer
from twoclocks.papers.early_stopping.b04_twins import AgreeUntilMemory
from twoclocks.papers.early_stopping.b05_productions import RulesUniformAndIndependent, effects_of
from twoclocks.papers.early_stopping.runs import DEEP, NARROW, RHM
from twoclocks.papers.records import Record
from twoclocks.papers.rows import StoredRun
from twoclocks.papers.twins import twins_file
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.rules.usage import nodes_used

LAST = 131_072


def at(step: float) -> Onset:
    """An onset near a step; infinite: never."""
    if math.isinf(step):
        return Onset(LAST, math.inf, "right-censored")
    return Onset(step / 1.05, step * 1.05, "observed")


@pytest.mark.parametrize(
    ("layers", "memory", "copies", "answer"),
    [
        ((100, 1_000, 9_000, math.inf, math.inf), 30_000, 0.6, "yes"),
        ((100, 1_000, 9_000, 60_000, 90_000), 30_000, 0.6, "yes"),  # the deep ones by copying
        ((100, 1_000, 9_000, math.inf, math.inf), 30_000, 0.3, "undecided"),  # the end was not seen
        ((100, 1_000, 9_000, 20_000, math.inf), 30_000, 0.6, "no"),  # layer 4 is learned
        ((100, 9_000, 1_000, math.inf, math.inf), 30_000, 0.6, "no"),  # not in order
        ((100, 1_000, 60_000, math.inf, math.inf), 30_000, 0.6, "no"),  # layer 3 only by copying
        ((100, 1_000, 9_000, math.inf, math.inf), math.inf, 0.1, "undecided"),  # no τ_mem
    ],
)
def test_layers(layers: tuple[float, ...], memory: float, copies: float, answer: str) -> None:
    assert layer_by_layer([at(one) for one in layers], at(memory), copies) == answer


def deep_run(folder: Path, seed: int, memory: float, **change: Any) -> StoredRun:
    steps = log_steps(64, LAST)
    copied = rise(steps, memory, 4)
    columns: dict[str, Any] = {
        "sample_accuracy": copied,
        "sample_memorization": copied,
        "valid_new": np.zeros(len(steps)),
        "loss_train": 2 - copied,
        "loss_held_out": 2 + copied,
    }
    point = {"data.n": 1024, "training.seed": seed, **NARROW, **change}
    return simulated_run(folder, DEEP, point, steps, columns)


@pytest.mark.parametrize(
    ("parting", "seeds", "verdict"),
    [(20_000, 3, "reproduced"), (20_000, 1, "seen once"), (1_000, 3, "refuted"), (math.inf, 3, "undecided")],
)
def test_twins(tmp_path: Path, parting: float, seeds: int, verdict: str) -> None:
    """The losses part when they differ by 0.1 nats: at (0.05/0.95)^(1/4) = 0.48 of the middle of the rise, 9,600."""
    runs = [deep_run(tmp_path, seed, 20_000) for seed in range(seeds)]
    assert AgreeUntilMemory().judge(records(runs)).verdict == "not run"
    for run in runs:
        twins_file(run.path).write_text(json.dumps({"hellinger": {"parting": at(parting).as_json()}}))
    found = AgreeUntilMemory().judge(records(runs))
    assert found.verdict == verdict, found


def productions_run(folder: Path, seed: int, preferred: float) -> StoredRun:
    """A run whose samples are true strings, of which some are replaced by one in which a production is preferred."""
    from simulated_views import write_view

    rule = RandomHierarchy(depth=3, branching=2, vocabulary=16, synonyms=4)
    steps, rng = [8_192, 16_384, 32_768], numpy_stream(seed, "strings")
    rows = [rule.draw(4096, rng) for _ in steps]
    for one in rows:
        one[: round(preferred * len(one))] = one[:1]
    used = np.stack([nodes_used(rule, torch.from_numpy(one)).numpy().astype(np.int32) for one in rows])
    columns = {"sample_accuracy": [1.0] * 3, "sample_memorization": [0.06] * 3, "valid_new": [0.94] * 3}
    point = {"data.n": 16_384, "training.seed": seed, **NARROW, "training.steps": 32_768, "evaluation.steps": steps}
    run = simulated_run(folder, RHM, {**point, "clocks.above_chance": True}, steps, columns)
    from twoclocks.dissection.truth import truth_of
    from twoclocks.rules.usage import usage_counts, usage_moments

    def draw(n: int, number: int) -> Any:
        return usage_counts(rule, nodes_used(rule, torch.from_numpy(rule.draw(n, numpy_stream(number, "true")))))

    constants = dict(vars(truth_of(usage_moments(rule), draw, 4096, 200)))
    counted = np.ones((3, 4096), dtype=bool)
    return write_view(run, "productions", steps, {"used": used, "counted": counted}, constants)


@pytest.mark.parametrize(("preferred", "verdict"), [(0.0, "reproduced"), (0.2, "refuted")])
def test_productions(tmp_path: Path, preferred: float, verdict: str) -> None:
    runs = [productions_run(tmp_path, seed, preferred) for seed in range(3)]
    found = RulesUniformAndIndependent().judge(records(runs))
    assert found.verdict == verdict, found
    effects = effects_of(Record(runs[0]))
    assert effects is not None and effects.step == 32_768 and effects.strings == 4096
    if not preferred:
        assert effects.excess < 0.02 and 0.8 < effects.covariance / effects.true_covariance < 1.2


def test_claims_without_runs() -> None:
    for claim in (LayerByLayer(), AgreeUntilMemory(), RulesUniformAndIndependent()):
        assert claim.judge(records([])).verdict == "not run"
