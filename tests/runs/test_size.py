"""What is kept on disk: the estimate is what is written, and the kept weights are those of the evaluation."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import SMALL_MODEL, TINY

from twoclocks.core.errors import UserError
from twoclocks.runs import Run, load_settings, run
from twoclocks.runs.assembly import Experiment
from twoclocks.runs.size import size_of
from twoclocks.store import verify_tree
from twoclocks.training.schedule import log_spaced, thinned


@pytest.mark.parametrize("kind", ["tiny_dit", "tiny_averaged"])
def test_the_estimate_is_what_weights_take(kind: str, request: pytest.FixtureRequest) -> None:
    done: Run = request.getfixturevalue(kind)
    stored = [done.directory.artifacts["weights"].path(step).stat().st_size for step in done.settings.weight_steps]
    size = size_of(done.settings)
    assert len(stored) == 5
    headers = 100 * len(done.directory.read_artifact("weights", 60))  # names and places of the tensors
    assert size.stored_weights <= sum(stored) <= size.stored_weights + len(stored) * headers
    whole = sum(path.stat().st_size for path in done.path.rglob("*") if path.is_file())
    assert whole <= size.whole


def test_kept_weights_are_those_that_made_the_samples(tiny_dit: Run) -> None:
    experiment = Experiment(tiny_dit.settings)
    for step in (0, 20, 60):
        experiment.load_weights(tiny_dit.directory.read_artifact("weights", step))
        decoded = experiment.encoding.decode(experiment.rule, experiment.sample())
        kept, _ = tiny_dit.samples(step)
        torch.testing.assert_close(decoded.symbols[:20], kept.symbols)
        torch.testing.assert_close(decoded.distance[:20], kept.distance)


def test_a_run_keeps_as_many_weights_as_it_is_told_and_its_last(tmp_path: Path) -> None:
    keep = {**TINY, "evaluation": {**TINY["evaluation"], "keep_weights": 2}, "model": SMALL_MODEL}
    done = run(load_settings("demo-gpt", keep), tmp_path / "two")
    assert list(done.directory.artifact_steps("weights")) == [0, 60]
    none = run(load_settings("demo-gpt", {**keep, "evaluation.keep_weights": 0}), tmp_path / "none")
    assert not (none.path / "weights").exists() and verify_tree(none.path)[0].intact


def test_changed_weights_are_damage_and_are_not_read(tmp_path: Path) -> None:
    done = run(load_settings("demo-gpt", {**TINY, "model": SMALL_MODEL}), tmp_path / "run")
    path = done.directory.artifacts["weights"].path(20)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert any("weights" in problem for problem in verify_tree(done.path)[0].damage)
    with pytest.raises(UserError, match=r"weights/step-000000020\.safetensors: is damaged"):
        done.directory.read_artifact("weights", 20)
    path.unlink()
    assert verify_tree(done.path)[0].damage == ["weights/step-000000020.safetensors: is missing"]


def test_a_disk_that_is_too_small_for_kept_weights_is_named_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings("demo-gpt", {**TINY, "model": SMALL_MODEL})
    usage = type("Usage", (), {"free": size_of(settings).whole - 1})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(UserError, match=r"evaluation\.keep_weights"):
        run(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_thinned_schedules_are_the_nearest_steps_in_short_time() -> None:
    generator = random.Random(0)
    for _ in range(300):
        schedule = tuple(sorted(generator.sample(range(generator.choice([30, 3000])), generator.randrange(2, 25))))
        count = generator.randrange(1, len(schedule))
        wanted = log_spaced(max(schedule[0], 1), schedule[-1], count)
        nearest = {min(schedule, key=lambda step, want=want: abs(math.log(max(step, 1) / want))) for want in wanted}
        assert thinned(schedule, count) == tuple(sorted(nearest))
    begin = time.process_time()
    assert len(thinned(range(10**6), 10**5)) > 10**4
    assert time.process_time() - begin < 10  # hours, where every step is compared with every other


def test_thinned_schedules_are_even_in_the_logarithm() -> None:
    schedule = tuple(range(0, 10_001, 10))
    chosen = np.array(thinned(schedule, 13)[2:], dtype=float)
    assert thinned(schedule, 13)[-1] == 10_000
    assert np.allclose(np.diff(np.log(chosen[3:])), np.log(10_000) / 12, atol=0.15)
    assert thinned((1, 5, 9), 3) == thinned((1, 5, 9), 99) == (1, 5, 9) and thinned((1, 5, 9), 0) == ()
    assert thinned((1, 5, 9), 1) == (9,)
