"""A whole run: what is stored can be read back, and nothing but its settings decides what it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import twoclocks as tc
from twoclocks.core.config import build, to_mapping
from twoclocks.core.counts import values_of
from twoclocks.core.errors import SettingError, UserError
from twoclocks.core.rows import is_member
from twoclocks.core.seeds import torch_stream
from twoclocks.evaluation.metric import name_problem
from twoclocks.models import MODELS, ModelSettings
from twoclocks.runs import Experiment, Progress, Run, RunSettings, load_run, load_settings, preset_names, run
from twoclocks.store.artifacts import KINDS
from twoclocks.training.errors import DivergedError


def final_weights(of: Run) -> dict[str, torch.Tensor]:
    """Weights and optimizer moments; the loop's sum of losses depends on when it was evaluated."""
    tensors = of.directory.read_checkpoint().tensors
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("loop.")}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", ["tiny_dit", "tiny_gpt"])
def test_run_directory_holds_everything(name: str, request: pytest.FixtureRequest) -> None:
    done: Run = request.getfixturevalue(name)
    assert load_run(done.path).settings == done.settings
    manifest = json.loads((done.path / "manifest.json").read_text())
    assert done.status["status"] == "finished" and manifest["versions"]["torch"] and manifest["schedule"][-1] == 60
    columns = done.metrics()
    assert columns["step"].tolist() == [0, 5, 20, 40, 60]
    assert np.isnan(columns["loss"][0]) and np.isfinite(columns["loss"][1:]).all()
    for metric in manifest["metrics"]:
        assert metric["name"] in columns
    assert {"loss_train", "loss_held_out", "loss_cube"} <= columns.keys()
    assert done.directory.checkpoint_steps() == [0, 60]


def test_a_run_read_back_judges_by_the_same_training_and_holdout_rows(tiny_gpt: Run) -> None:
    """4 of 16 samples are trained on, so as many can be held out; 9 of 16 leave too few."""
    made, read = Experiment(tiny_gpt.settings).evaluator, tiny_gpt.evaluator
    assert made.holdout is not None and read.holdout is not None and len(read.holdout) == 4
    assert torch.equal(made.train, read.train) and torch.equal(made.holdout.words, read.holdout.words)
    assert not made.holdout.found(made.train).any()
    crowded = replace(tiny_gpt.settings, data=replace(tiny_gpt.settings.data, n=9))
    assert Experiment(crowded).evaluator.holdout is None


@pytest.mark.parametrize("name", ["tiny_dit", "tiny_gpt"])
def test_same_settings_same_run_and_evaluation_does_not_touch_the_weights(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    done: Run = request.getfixturevalue(name)
    again = run(done.settings, tmp_path / "again")
    assert same(final_weights(again), final_weights(done))
    rows = [values_of(row) for row in again.directory.metrics()]
    assert [row["sample_accuracy"] for row in rows] == done.metrics()["sample_accuracy"].tolist()
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


def test_no_metric_can_have_a_column_that_a_run_writes_itself(tiny_dit: Run, tiny_averaged: Run) -> None:
    runs = tiny_dit, tiny_averaged
    lines = [line for one in runs for line in (one.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    written = {key for line in lines for key in json.loads(line)}
    of_metrics = {column.name for column in tiny_dit.evaluator.columns()}
    own = {key for key in written if not {key, key.removesuffix("_hits"), key.removesuffix("_trials")} & of_metrics}
    assert {"step", "loss", "trials", "loss_train", "samples", "weights", "link"} <= own
    assert {"averaged_sample_accuracy_hits", "averaged_group_accuracy_trials"} <= own
    assert [name for name in {*own, *KINDS} if name_problem(name, {}) is None] == []


def test_unknown_metric_names_the_known_ones(tiny_gpt: Run) -> None:
    assert tiny_gpt.metric("sample_accuracy").chance_cube == 2.0**-4
    with pytest.raises(UserError, match="did you mean 'sample_accuracy'"):
        tiny_gpt.metric("sample_acuracy")


def test_clocks_are_read_from_the_stored_counts(tiny_gpt: Run) -> None:
    columns, clocks = tiny_gpt.metrics(), tiny_gpt.clocks()
    above = columns["step"][columns["sample_accuracy"] > 0.9]
    if len(above):
        assert clocks.rule.upper == above[0]
    else:
        assert clocks.rule.status == "right-censored"
    assert clocks.memory.threshold == pytest.approx(0.3 + 4 / 16)


def test_diverging_run_keeps_its_last_good_checkpoint(tmp_path: Path, tiny_dit: Run) -> None:
    settings = replace(tiny_dit.settings, training=replace(tiny_dit.settings.training, learning_rate=1e30))
    with pytest.raises(DivergedError, match="not finite"):
        run(settings, tmp_path / "run")
    kept = load_run(tmp_path / "run")
    assert kept.status["status"] == "diverged" and "learning_rate" in kept.status["reason"]
    assert "weights are those of step 0" in kept.status["reason"]
    checkpoint = kept.directory.read_checkpoint()
    assert all(bool(torch.isfinite(t.float()).all()) for t in checkpoint.tensors.values())
    assert checkpoint.step == list(kept.directory.metrics())[-1]["step"]


@pytest.mark.parametrize("rate", [1e5, 1e10])
@pytest.mark.parametrize("name", ["tiny_dit", "tiny_gpt"])
def test_a_model_that_generates_nonsense_is_diverged_not_valid(
    name: str, rate: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Weights may be finite and still give NaN: an all-zero row would then pass for a valid sample."""
    tiny: Run = request.getfixturevalue(name)
    settings = replace(
        tiny.settings,
        training=replace(tiny.settings.training, learning_rate=rate),
        evaluation=replace(tiny.settings.evaluation, steps=(1, 2, 3, 60)),
    )
    try:
        done = run(settings, tmp_path / "run")
    except DivergedError as error:
        stopped = load_run(tmp_path / "run")
        assert stopped.status["status"] == "diverged" and stopped.directory.checkpoint_steps()[-1] == error.last_good
        rows = list(stopped.directory.metrics())
    else:
        rows = list(done.directory.metrics())
    assert all(np.isfinite([row["loss_train"], row["loss_held_out"], row["loss_cube"]]).all() for row in rows)


def test_interrupted_run_says_so_and_can_be_read(tmp_path: Path, tiny_gpt: Run) -> None:
    def stop(progress: Progress) -> None:
        if progress.evaluated and progress.step >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny_gpt.settings, tmp_path / "run", stop)
    done = load_run(tmp_path / "run")
    assert done.status["status"] == "interrupted" and done.metrics()["step"].tolist() == [0, 5, 20]
    assert done.clocks().rule is not None


def test_a_run_that_fails_is_not_called_interrupted(tmp_path: Path, tiny_gpt: Run) -> None:
    def fail(progress: Progress) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(tiny_gpt.settings, tmp_path / "run", fail)
    assert load_run(tmp_path / "run").status["status"] == "failed"


def test_observer_hears_of_progress_and_the_time_left(tmp_path: Path, tiny_gpt: Run) -> None:
    heard: list[Progress] = []
    run(tiny_gpt.settings, tmp_path / "run", heard.append)
    assert [p.step for p in heard if p.evaluated] == [0, 5, 20, 40, 60]
    assert any(not p.evaluated for p in heard)
    assert heard[-1].seconds_left == 0 and all(p.seconds_left > 0 for p in heard[:-2])


def test_seeds_and_splits_are_the_ones_the_settings_name(tiny_gpt: Run) -> None:
    settings = tiny_gpt.settings
    base = Experiment(settings)

    def weights(seed: int) -> torch.Tensor:
        network = Experiment(replace(settings, training=replace(settings.training, seed=seed))).network
        return torch.cat([p.detach().flatten() for p in network.parameters()])

    assert torch.equal(weights(0), weights(0)) and not torch.equal(weights(0), weights(1))
    other = Experiment(replace(settings, data=replace(settings.data, seed=5)))
    assert torch.equal(base.train_rows, tc.data.training_set(settings.rule, 4, 0))
    assert torch.equal(other.train_rows, tc.data.training_set(settings.rule, 4, 5))
    held_out = {tuple(row) for row in base.splits["held_out"].tolist()}
    assert held_out and held_out.isdisjoint({tuple(row) for row in base.train_rows.tolist()})
    assert {tuple(row) for row in base.splits["train"].tolist()} == {tuple(row) for row in base.train_rows.tolist()}
    assert all(len(rows) == settings.evaluation.loss_rows for rows in base.splits.values())


def test_evaluation_repeats_itself_and_its_losses_are_those_of_the_splits(tiny_dit: Run) -> None:
    """The same weights give the same row twice: noise is fixed, and the same for all three splits."""
    experiment = Experiment(tiny_dit.settings)
    with torch.no_grad():
        for parameter in experiment.network.parameters():
            parameter.add_(0.05)
    (first, _), (again, _) = experiment.evaluate(1, 0.0), experiment.evaluate(2, 0.0)
    for name in ("sample_accuracy_hits", "loss_train", "loss_held_out", "loss_cube", "quantization_distance"):
        assert first[name] == again[name]
    for split, rows in experiment.splits.items():
        noise = torch_stream(tiny_dit.settings.evaluation.seed, "loss noise")
        direct = experiment.objective.loss(experiment.network, rows, noise).mean()
        assert first[f"loss_{split}"] == pytest.approx(float(direct.detach()), rel=1e-6)
    assert len({first[f"loss_{split}"] for split in experiment.splits}) == 3


def test_threads_are_a_crew_and_given_back(tiny_gpt: Run, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    settings = replace(tiny_gpt.settings, training=replace(tiny_gpt.settings.training, threads=3))
    done = run(settings, tmp_path / "run")
    assert done.directory.manifest()["machine"]["threads"] == 3
    assert torch.get_num_threads() == before


def test_checkpoint_holds_weights_and_optimizer_moments_by_name(tiny_dit: Run) -> None:
    tensors = final_weights(tiny_dit)
    experiment = Experiment(tiny_dit.settings)
    for name, parameter in experiment.network.named_parameters():
        assert tensors[f"network.{name}"].shape == parameter.shape
        assert tensors[f"optimizer.{name}.exp_avg"].shape == parameter.shape
        assert int(tensors[f"optimizer.{name}.step"]) == 60


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_is_valid_described_and_rebuilt_from_its_plain_form(
    preset: str, files_of_the_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files_of_the_user)  # presets for data of the user name files in the working directory
    settings = load_settings(preset)
    assert settings.name == preset and len(settings.description) > 20
    assert build(RunSettings, json.loads(json.dumps(to_mapping(settings)))) == settings


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_demo_copy_chance_is_below_five_percent(preset: str) -> None:
    settings = load_settings(preset)
    assert settings.rule.copy_chance(settings.data.n) < 0.05


@pytest.mark.parametrize("base", ["5", "[demo]", "mine.yaml"])
def test_bases_that_cannot_be_are_refused(work: Path, base: str) -> None:
    (work / "mine.yaml").write_text(f"base: {base}\n")
    with pytest.raises(SettingError, match="base"):
        load_settings("mine.yaml")


def test_a_base_is_looked_up_beside_its_file(work: Path) -> None:
    (work / "sub").mkdir()
    (work / "sub" / "parent.yaml").write_text("base: demo\ndata: {n: 31}\n")
    (work / "sub" / "child.yaml").write_text("base: parent.yaml\ntraining: {batch: 9}\n")
    settings = load_settings("sub/child.yaml")
    assert (settings.data.n, settings.training.batch, settings.name) == (31, 9, "child")


def test_a_yaml_file_can_change_a_preset(work: Path) -> None:
    (work / "mine.yaml").write_text("base: demo\ndata: {n: 30}\n")
    settings = load_settings("mine.yaml", ["--training.steps", "500"])
    assert (settings.name, settings.data.n, settings.training.steps) == ("mine", 30, 500)
    assert settings.model == load_settings("demo").model


def test_a_model_that_builds_a_plain_module_is_refused_with_the_fix() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Foreign(ModelSettings):
        task: ClassVar[str] = "denoise images"

        @property
        def title(self) -> str:
            return "foreign"

        def build(self, shape: tuple[int, ...], symbols: int) -> Any:
            return torch.nn.Identity()

    MODELS.register("foreign")(Foreign)
    try:
        with pytest.raises(UserError, match="'foreign' builds a Identity; derive it from"):
            Experiment(replace(load_settings("demo"), model=Foreign()))
    finally:
        MODELS._members.pop("foreign")


def test_runs_on_images_stop_by_the_chance_level_that_their_clocks_use(twin_digits: tuple[Run, Run]) -> None:
    from twoclocks.runs.session import make_monitor

    run, _ = twin_digits
    measured = Experiment(run.settings).evaluator.reference.copy_chance
    assert run.copy_chance == measured == run.metric("sample_memorization").chance_rule
    assert make_monitor(Experiment(run.settings)).copy_chance == measured
    everything = replace(run.settings, evaluation=replace(run.settings.evaluation, copy_ratio=1.0))
    with pytest.raises(SettingError, match=r"clocks.memory_threshold.*a true sample is a copy with chance 1"):
        make_monitor(Experiment(everything))
