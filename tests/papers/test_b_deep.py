"""P2's claims on a deep grammar, on twins and on production rules: simulated truth, and real runs of a few steps."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from simulated import log_steps, records, rise, simulated_run

from twoclocks.clocks.onset import Onset
from twoclocks.core.seeds import numpy_stream
from twoclocks.papers.early_stopping import b05_productions
from twoclocks.papers.early_stopping.b03_layers import LayerByLayer, layer_by_layer
from twoclocks.papers.early_stopping.b04_twins import AgreeUntilMemory, SamplesAgreeUntilMemory, pair_of, twin_in
from twoclocks.papers.early_stopping.b05_productions import RulesUniformAndIndependent, effects_of
from twoclocks.papers.early_stopping.fig05_layers import LayersAndTwins
from twoclocks.papers.early_stopping.fig14_productions import UseOfRules
from twoclocks.papers.early_stopping.runs import DEEP, NARROW, RHM
from twoclocks.papers.records import Record, Records
from twoclocks.papers.twins import twins_file
from twoclocks.rules.rhm import RandomHierarchy
from twoclocks.rules.usage import nodes_used
from twoclocks.runs.rows import StoredRun, read_rows

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


LAYERS = (100.0, 1_000.0, 9_000.0, math.inf, math.inf)


def deep_run(
    folder: Path, seed: int, memory: float, layers: tuple[float, ...] = LAYERS, last: int = LAST, **change: Any
) -> StoredRun:
    """A run whose layers are learned at these steps, and otherwise by copying."""
    steps = log_steps(64, last)
    copied = rise(steps, memory, 4)
    columns: dict[str, Any] = {
        "sample_accuracy": copied,
        "sample_memorization": copied,
        "valid_new": np.zeros(len(steps)),
        "loss_train": 2 - copied,
        "loss_held_out": 2 + copied,
    }
    for level, step in enumerate(layers, start=1):
        learned = rise(steps, step) if math.isfinite(step) else np.zeros(len(steps))
        columns[f"layer_{level}_accuracy"] = np.maximum(learned, copied)
    point = {"data.n": 1024, "training.seed": seed, **NARROW, **change}
    return simulated_run(folder, DEEP, point, steps, columns)


@pytest.mark.parametrize(
    ("layers", "verdict"),
    [(LAYERS, "reproduced"), ((100.0, 1_000.0, 2_000.0, 3_000.0, math.inf), "refuted")],
)
def test_layers_of_whole_runs(tmp_path: Path, layers: tuple[float, ...], verdict: str) -> None:
    runs = [deep_run(tmp_path, seed, 30_000, layers) for seed in range(3)]
    found = LayerByLayer().judge(records(runs))
    assert found.verdict == verdict, found
    other = [deep_run(tmp_path, seed, 30_000, layers, **{"data.n": 2048}) for seed in range(3)]
    assert LayerByLayer().judge(records(other)).verdict == "not run"


def test_the_figure_of_layers_and_twins(tmp_path: Path) -> None:
    runs = [deep_run(tmp_path, seed, 30_000) for seed in range(2)]
    figure = LayersAndTwins()
    alone = figure.data(records(runs))
    assert [*alone.errors] == [1, 2, 3, 4, 5] and alone.errors[5][-1] == pytest.approx(1 - alone.copies[-1], abs=0.01)
    assert alone.errors[1][len(alone.steps) // 2] < 0.01 < alone.errors[4][len(alone.steps) // 2]
    assert "no twins yet" in figure.caption(alone) and len(figure.draw(alone).axes) == 2
    steps = [0, 100, 1_000, 10_000]
    outputs = {"steps": steps, **{name: [0.1] * 4 for name in ("mean", "low", "high", "chance")}, "parting": None}
    twins_file(runs[0].path).write_text(json.dumps({"hellinger": outputs}))
    info = figure.data(records(runs))
    assert len(info.distances) == 1 and info.distances[0].steps.tolist() == steps[1:]
    assert "1 pair of twins" in figure.caption(info)
    figure.draw(info)


def compared(run: StoredRun, measure: str, parting: float | None, closest: int, nearness: float = 0.8) -> None:
    """Store a comparison of a run with its twin, as it is stored after both have ended.

    ``nearness``: 1 where both models are the same, 0 where they agree as by chance.
    """
    chance = 0.46 if measure == "hellinger" else 0.99  # a distance of outputs, or 1 − cosine of samples
    mean = chance * (1 - nearness)
    distances = {
        **{"steps": [closest // 2, closest, 4 * closest], "mean": [mean, mean, chance], "chance": [chance] * 3},
        **{"closest": [closest // 2, closest], "parting": None if parting is None else at(parting).as_json()},
    }
    found: dict[str, Any] = {"hellinger": None, "samples": None, measure: distances}
    twins_file(run.path).write_text(json.dumps(found))


TWINS = [
    (20_000, 3, "reproduced"),
    (20_000, 1, "seen once"),
    (1_000, 3, "refuted"),
    (math.inf, 3, "undecided"),
]


@pytest.mark.parametrize(("parting", "seeds", "verdict"), TWINS)
def test_twins(tmp_path: Path, parting: float, seeds: int, verdict: str) -> None:
    """The losses part when they differ by 0.1 nats: at (0.05/0.95)^(1/4) = 0.48 of the middle of the rise, 9,600."""
    runs = [deep_run(tmp_path, seed, 20_000) for seed in range(seeds)]
    assert AgreeUntilMemory().judge(records(runs)).verdict == "not run"
    for run in runs:
        compared(run, "hellinger", parting, closest=800)
    found = AgreeUntilMemory().judge(records(runs))
    assert found.verdict == verdict, found
    # Longer runs of the same training that nobody compared: losses are those of the runs that were compared.
    longer = [deep_run(tmp_path, seed, 200, last=4 * LAST, **{"training.steps": 4 * LAST}) for seed in range(seeds)]
    both = records([*longer, *runs])
    assert all(one.last_step == 4 * LAST for one in both)
    assert AgreeUntilMemory().judge(both) == found
    info = {"steps": [0, 1], "mean": [0, 0.1], "low": [0, 0.1], "high": [0, 0.1], "chance": [1, 1], "parting": None}
    twins_file(runs[0].path).write_text(json.dumps({"hellinger": info}))
    for run in runs[1:]:
        twins_file(run.path).unlink()
    assert len(LayersAndTwins().data(both).distances) == 1


def parity_run(folder: Path, seed: int, **change: Any) -> StoredRun:
    """A run whose losses part at step 2,736, and that copies from about step 6,100 on."""
    steps = log_steps(50, 24_000)
    copied, valid = rise(steps, 8_000), rise(steps, 600)
    columns = {
        "sample_accuracy": np.maximum(valid, copied),
        "sample_memorization": copied,
        "valid_new": valid * (1 - copied),
        "loss_train": 1 - valid / 2,
        "loss_held_out": 1 - valid / 2 + 0.2 * rise(steps, 3_600, 4),
    }
    point = {"rule.group": 2, "data.n": 64, "training.seed": seed, **change}
    return simulated_run(folder, "p1-dit-nano", point, steps, columns)


@pytest.mark.parametrize(("parting", "seeds", "verdict"), [(6_000, 3, "reproduced"), *TWINS[1:]])
def test_twins_on_parity(tmp_path: Path, parting: float, seeds: int, verdict: str) -> None:
    """The losses differ by a quarter of 0.2 at (1/3)^(1/4) = 0.76 of the step 3,600, 2,736: before copies come."""
    runs = [parity_run(tmp_path, seed) for seed in range(seeds)]
    assert SamplesAgreeUntilMemory().judge(records(runs)).verdict == "not run"
    for run in runs:
        compared(run, "samples", parting, closest=700)
    found = SamplesAgreeUntilMemory().judge(records(runs))
    assert found.verdict == verdict and "samples agree to 80%" in found.measured, found
    assert AgreeUntilMemory().judge(records(runs)).verdict == "not run"
    other = [parity_run(tmp_path / "other", seed, **{"data.n": 256}) for seed in range(3)]
    for run in other:
        compared(run, "samples", parting, closest=700)
    assert SamplesAgreeUntilMemory().judge(records(other)).verdict == "not run"


@pytest.mark.parametrize(("measure", "make"), [("hellinger", "deep"), ("samples", "parity")])
def test_models_that_never_agreed_refute(tmp_path: Path, measure: str, make: str) -> None:
    """P2 says that the models agree until τ_mem, not only that they part after it."""
    claim = AgreeUntilMemory() if make == "deep" else SamplesAgreeUntilMemory()
    runs = [deep_run(tmp_path, seed, 20_000) if make == "deep" else parity_run(tmp_path, seed) for seed in range(3)]
    for run in runs:
        compared(run, measure, 20_000 if make == "deep" else 6_000, closest=700, nearness=0.05)
    assert claim.judge(records(runs)).verdict == "refuted"
    for run in runs:
        compared(run, measure, None, closest=700)  # nobody can say when they part
    assert claim.judge(records(runs)).verdict == "undecided"


def test_the_losses_of_both_twins_count(tmp_path: Path) -> None:
    """The first run's losses part at 9,600, the twin's at 57,600, and the outputs in between."""
    runs = [deep_run(tmp_path, seed, 20_000) for seed in range(3)]
    twins = [deep_run(tmp_path, seed, 120_000, last=4 * LAST, **{"data.part": 1}) for seed in range(3)]
    for run in runs:
        compared(run, "hellinger", 20_000, closest=800)
    assert AgreeUntilMemory().judge(records(runs)).verdict == "reproduced"
    assert AgreeUntilMemory().judge(records([*runs, *twins])).verdict == "undecided"


def test_a_parting_from_a_level_of_copies_decides_nothing(tmp_path: Path) -> None:
    """Runs may end at more copies than a tenth; twins that are closest only after it were never seen to agree."""
    runs = [deep_run(tmp_path, seed, 20_000) for seed in range(3)]
    for closest, verdict in ((9_000, "reproduced"), (15_000, "undecided")):  # copies reach 10% at 11,500
        for run in runs:
            compared(run, "hellinger", 60_000, closest)
        found = AgreeUntilMemory().judge(records(runs))
        assert found.verdict == verdict and ("closest only" in found.measured) == (verdict == "undecided"), found
    for run in runs:
        compared(run, "hellinger", 60_000, closest=9_000)
    twins = [deep_run(tmp_path, seed, 9_000, **{"data.part": 1}) for seed in range(3)]  # they copy from 5,200 on
    assert AgreeUntilMemory().judge(records([*runs, *twins])).verdict == "undecided"


def test_committed_twins_are_closest_before_either_copies() -> None:
    """They were compared by τ_mem at 50% copies: the parting is the same for any τ_mem after the closest step."""
    committed = Records.of(read_rows(Path(__file__).parents[2] / "results" / "campaign"))
    pairs = [pair_of(one, committed, "hellinger", 0.1) for one in AgreeUntilMemory().first_runs(committed)]
    found = [pair for pair in pairs if pair is not None]
    assert len(found) >= 3 and all(len(twin_in(pair.record, committed)) == 1 for pair in found)
    assert all(pair.reference <= pair.memory.lower for pair in found)


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


def plain_run(folder: Path, seed: int) -> StoredRun:
    """A longer run of the same training, whose productions were not counted."""
    steps = [64, 8_192, LAST]
    columns = {"sample_accuracy": [1.0] * 3, "sample_memorization": [0.06] * 3, "valid_new": [0.94] * 3}
    point = {"data.n": 16_384, "training.seed": seed, **NARROW, "training.steps": LAST}
    return simulated_run(folder, RHM, {**point, "evaluation.keep_samples": 0}, steps, columns)


@pytest.mark.parametrize(("preferred", "verdict"), [(0.0, "reproduced"), (0.2, "refuted")])
def test_productions(tmp_path: Path, preferred: float, verdict: str) -> None:
    runs = [productions_run(tmp_path, seed, preferred) for seed in range(3)]
    found = RulesUniformAndIndependent().judge(records(runs))
    assert found.verdict == verdict, found
    effects = effects_of(Record(runs[0]))
    assert effects is not None and effects.step == 32_768 and effects.strings == 4096
    figure = UseOfRules()
    info = figure.data(records(runs))
    assert len(info.effects) == 3 and "seed 2: 4,096 valid strings" in figure.caption(info)
    assert len(figure.draw(info).axes) >= 4
    longer = [plain_run(tmp_path, seed) for seed in range(3)]  # of the same training, without the view
    both = records([*longer, *runs])
    assert len(both) == 3 and all(one.last_step == LAST for one in both)
    assert RulesUniformAndIndependent().judge(both) == found
    assert figure.caption(figure.data(both)) == figure.caption(info)
    if not preferred:
        assert effects.excess < 0.02 and 0.8 < effects.covariance / effects.true_covariance < 1.2


def test_few_strings_or_another_step_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [productions_run(tmp_path, seed, 0.0) for seed in range(3)]
    monkeypatch.setattr(b05_productions, "STEP", 200_000)  # no evaluation is near it
    assert RulesUniformAndIndependent().judge(records(runs)).verdict == "undecided"
    effects = effects_of(Record(runs[0]))
    assert effects is not None and effects.answers() == ["yes", "yes"]
    assert replace(effects, true_excess=0.12).answers() == ["undecided"]
    assert replace(effects, excess=0.2).answers() == ["no", "yes"]


def test_claims_without_runs() -> None:
    for claim in (LayerByLayer(), AgreeUntilMemory(), SamplesAgreeUntilMemory(), RulesUniformAndIndependent()):
        assert claim.judge(records([])).verdict == "not run"
