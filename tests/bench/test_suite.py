"""The comparison is fair: the textbook loop trains and samples as ours does, and everything is printed and written."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Literal

import pytest
import torch

from twoclocks import cli, kernels, models
from twoclocks.bench import growth, products, steps, where
from twoclocks.bench.reference import edm_loss, masked_token_loss, next_token_loss, plain_samples, plain_step
from twoclocks.bench.workloads import WORKLOADS, Workload
from twoclocks.objectives import EDM, Autoregressive
from twoclocks.objectives.masked import Masked
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.testing.contracts import randomised

SMALL = {"model": {"width": 16, "depth": 2, "heads": 1}, "evaluation.samples": 256, "training.threads": 1}


def test_the_textbook_loss_of_a_denoiser_is_ours() -> None:
    """Weighted error of the denoiser, line by line, against the plain error of the network."""
    network, objective = randomised(models.create("dit", width=32, depth=1, heads=2), (1, 3, 4), 2), EDM(sigma_data=0.7)
    clean = torch.randn(64, 1, 3, 4)
    torch.manual_seed(3)
    loss = edm_loss(objective, network, clean)
    torch.manual_seed(3)
    normal, noise = torch.randn(64, 1, 1, 1).flatten(), torch.randn_like(clean)
    drawn = objective.log_sigma_mean + objective.log_sigma_std * normal, noise
    assert loss.item() == pytest.approx(objective.loss_given(network, clean, *drawn).mean().item(), rel=1e-4)


def test_the_textbook_loss_of_a_sequence_is_ours() -> None:
    network, objective = randomised(models.create("gpt", width=32, depth=1, heads=2), (12,), 3), Autoregressive()
    clean = torch.randint(3, (8, 12))
    loss = next_token_loss(objective, network, clean)
    assert loss.item() == pytest.approx(objective.loss(network, clean, torch.Generator()).mean().item(), rel=1e-5)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_textbook_loss_of_masked_tokens_is_ours(schedule: Literal["linear", "cosine"]) -> None:
    network = randomised(models.create("gpt_full", width=32, depth=1, heads=2), (12,), 3)
    objective, clean = Masked(schedule=schedule), torch.randint(3, (8, 12))
    torch.manual_seed(3)
    loss = masked_token_loss(objective, network, clean)
    torch.manual_seed(3)
    drawn = torch.rand(8, 1).flatten(), torch.rand(8, 12)
    assert loss.item() == pytest.approx(objective.loss_given(network, clean, *drawn).mean().item(), rel=1e-5)


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_the_textbook_sampler_makes_our_samples(preset: str) -> None:
    experiment = Experiment(load_settings(preset, SMALL))
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in experiment.network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        assert torch.allclose(plain_samples(experiment).float(), experiment.sample().float(), atol=1e-3)


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_the_textbook_step_trains(preset: str) -> None:
    experiment = Experiment(load_settings(preset, SMALL))
    before = torch.cat([p.detach().flatten().clone() for p in experiment.network.parameters()])
    plain_step(experiment)()
    after = torch.cat([p.detach().flatten() for p in experiment.network.parameters()])
    assert 0 < float((after - before).abs().max()) <= 1.01 * experiment.settings.training.learning_rate


def test_operations_of_a_step_are_those_of_its_layers() -> None:
    experiment = Experiment(load_settings("demo-gpt", SMALL))
    tokens, width = experiment.settings.training.batch * 24, 16
    block = tokens * width * (3 * width + width + 4 * width + 4 * width)
    assert products.products_alone(experiment, experiment.pool)[1] == 6 * 2 * block


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("nvjet_sm90_tst_128x256", "matrix products"),
        ("_weight_gradient", "matrix products"),
        ("_input_gradient", "matrix products"),
        ("_attention_backward", "attention"),
        ("aten::native_layer_norm_backward", "normalisation"),
        ("_activate_forward", "activation"),
        ("_adam", "optimizer"),
        ("aten::copy_", "the rest"),
    ],
)
def test_kernels_are_told_apart(name: str, purpose: str) -> None:
    assert where.purpose(name) == purpose


def test_every_kernel_of_ours_has_been_given_a_purpose() -> None:
    """A kernel with a new name would count among the rest without a word."""
    launched = {
        name
        for path in Path(kernels.__file__).parent.glob("*.py")
        for name in re.findall(r"^ +(_[a-z_]+)\[", path.read_text("utf-8"), re.MULTILINE)
    }
    small = {"_column_sums", "_precondition", "_skinny_expand", "_skinny_reduce", "_skinny_outer"}
    losses = {"_squared_error_forward", "_squared_error_backward", "_cross_entropy_forward", "_cross_entropy_backward"}
    assert len(launched) > 20
    assert {name for name in launched if where.purpose(name) == "the rest"} == small | losses


def test_bench_measures_prints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [Workload("DiT", "demo", {**SMALL, "objective": {"sampler_steps": 3}}), Workload("GPT", "demo-gpt", SMALL)]
    monkeypatch.setitem(WORKLOADS, "cpu", small)
    tiny = {"copies": {"n": growth.along(growth.Point(10, 8, 20), "n", (10, 20, 40))}}
    monkeypatch.setitem(growth.PLANS, "cpu", tiny)
    monkeypatch.setitem(steps.LARGE, "cpu", 64)
    threads = torch.get_num_threads()
    assert cli.main(["bench", "--seconds", "0.05", "--out", str(tmp_path / "out")]) == 0
    assert torch.get_num_threads() == threads
    printed = capsys.readouterr().out
    for title in ("DiT: training steps per second", "GPT: which factor comes from what", "seconds per evaluation"):
        assert title in printed
    record = json.loads((tmp_path / "out" / "bench.json").read_text(encoding="utf-8"))
    for row in record["steps"]:
        rates = row["steps_per_second"]
        assert set(rates) == {"ours", "plain", "plain, 1 thread", "products alone"} and min(rates.values()) > 0
        assert math.prod(stage["factor"] for stage in row["factors"][1:]) == pytest.approx(
            rates["ours"] / rates["plain"]
        )
        assert row["compiled"] == {}  # on a CPU only with --compiled
        assert row["over_best_plain"] == pytest.approx(rates["ours"] / max(rates["plain"], rates["plain, 1 thread"]))
    assert [row["loop"].partition(":")[0] for row in record["where"]] == ["before", "after"] * 2
    assert all(row["microseconds"]["matrix products"] > 0 for row in record["where"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"bench.json", "where.png", "growth.png"}
    assert cli.main(["bench", "--parts", "steps", "--seconds", "0.05", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"steps", "ceiling", "commit", "machine"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device", "tpu"], "--device: 'tpu'"),
        (["--parts", "stepz"], "--parts: 'stepz'"),
        (["--seconds", "0"], "--seconds: 0.0"),
        (["--seconds", "nan"], "--seconds: nan"),
        (["--seconds", "inf"], "--seconds: inf"),
        (["--device", "cpu:0"], "--device: 'cpu:0'"),
        (["--device", "cuda:99"], "--device: 'cuda:99'"),
        (["--out", "/dev/null/x"], "/dev/null"),
    ],
)
def test_wrong_input_gets_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *words]) == cli.EXIT_BAD_INPUT
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
