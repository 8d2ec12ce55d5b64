"""A whole run: what is stored can be read back, and nothing but its settings decides what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.core.config import build, to_mapping
from twoclocks.core.rows import is_member
from twoclocks.experiment import Experiment, Run, RunSettings, load_run, load_settings, preset_names, run
from twoclocks.training.errors import DivergedError


def final_weights(of: Run) -> dict[str, torch.Tensor]:
    return of.directory.read_checkpoint().tensors


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", ["tiny_dit", "tiny_gpt"])
def test_run_directory_holds_everything(name: str, request: pytest.FixtureRequest) -> None:
    done: Run = request.getfixturevalue(name)
    assert load_run(done.path).settings == done.settings
    manifest = json.loads((done.path / "manifest.json").read_text())
    assert manifest["status"] == "finished" and manifest["versions"]["torch"] and manifest["schedule"][-1] == 60
    columns = done.metrics()
    assert columns["step"].tolist() == [0, 5, 20, 40, 60]
    assert np.isnan(columns["loss"][0]) and np.isfinite(columns["loss"][1:]).all()
    for metric in manifest["metrics"]:
        assert metric["name"] in columns
    assert {"loss_train", "loss_held_out", "loss_cube"} <= columns.keys()
    assert done.directory.checkpoint_steps() == [40, 60]


@pytest.mark.parametrize("name", ["tiny_dit", "tiny_gpt"])
def test_same_settings_same_run_and_evaluation_does_not_touch_the_weights(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    done: Run = request.getfixturevalue(name)
    again = run(done.settings, tmp_path / "again")
    assert same(final_weights(again), final_weights(done))
    assert [r["sample_accuracy"] for r in again.directory.metrics()] == done.metrics()["sample_accuracy"].tolist()
    seldom = replace(done.settings, evaluation=replace(done.settings.evaluation, steps=(60,), samples=150, seed=9))
    assert same(final_weights(run(seldom, tmp_path / "seldom")), final_weights(done))
    other = replace(done.settings, training=replace(done.settings.training, seed=1))
    assert not same(final_weights(run(other, tmp_path / "other")), final_weights(done))


def test_stored_samples_are_what_the_metrics_were_computed_from(tiny_gpt: Run) -> None:
    decoded, outcome = tiny_gpt.samples(60)
    train = tc.data.training_set(tiny_gpt.settings.rule, 4, tiny_gpt.settings.data.seed)
    assert decoded.symbols.shape == (20, 8)
    assert outcome.copied.tolist() == is_member(decoded.symbols, train, 2).tolist()
    assert outcome.valid.tolist() == tiny_gpt.settings.rule.is_valid(decoded.symbols).tolist()


def test_clocks_are_read_from_the_stored_counts(tiny_gpt: Run) -> None:
    columns, clocks = tiny_gpt.metrics(), tiny_gpt.clocks()
    above = columns["step"][columns["sample_accuracy"] > 0.9]
    if len(above):
        assert clocks.rule.upper == above[0]
    else:
        assert clocks.rule.status == "right-censored"
    assert clocks.memory.threshold == pytest.approx(0.1 + 4 / 16)


def test_diverging_run_keeps_its_last_good_checkpoint(tmp_path: Path, tiny_dit: Run) -> None:
    settings = replace(tiny_dit.settings, training=replace(tiny_dit.settings.training, learning_rate=1e30))
    with pytest.raises(DivergedError, match="not finite"):
        run(settings, tmp_path / "run")
    kept = load_run(tmp_path / "run")
    assert kept.manifest["status"] == "diverged" and "learning_rate" in kept.manifest["reason"]
    checkpoint = kept.directory.read_checkpoint()
    assert all(bool(torch.isfinite(t.float()).all()) for t in checkpoint.tensors.values())
    assert checkpoint.step == list(kept.directory.metrics())[-1]["step"]


def test_checkpoint_holds_weights_and_optimizer_moments_by_name(tiny_dit: Run) -> None:
    tensors = final_weights(tiny_dit)
    experiment = Experiment(tiny_dit.settings)
    for name, parameter in experiment.network.named_parameters():
        assert tensors[f"network.{name}"].shape == parameter.shape
        assert tensors[f"optimizer.{name}.exp_avg"].shape == parameter.shape
        assert int(tensors[f"optimizer.{name}.step"]) == 60


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_is_valid_described_and_rebuilt_from_its_plain_form(preset: str) -> None:
    settings = load_settings(preset)
    assert settings.name == preset and len(settings.description) > 20
    assert build(RunSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_demo_copy_chance_is_below_five_percent(preset: str) -> None:
    settings = load_settings(preset)
    assert settings.rule.copy_chance(settings.data.n) < 0.05


def test_a_yaml_file_can_change_a_preset(work: Path) -> None:
    (work / "mine.yaml").write_text("base: demo\ndata: {n: 30}\n")
    settings = load_settings("mine.yaml", ["--training.steps", "500"])
    assert (settings.name, settings.data.n, settings.training.steps) == ("mine", 30, 500)
    assert settings.model == load_settings("demo").model
