"""What only a GPU can show: replayed steps are the steps, and fast training is the plain training within its noise."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
import torch

from twoclocks.kernels.flat import FlatForm
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.order import EpochOrder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
PRESETS = {"dit": ("p1-dit-mini", 256), "gpt": ("p1-gpt-mini", 128)}


def experiment(name: str, more: Mapping[str, Any] | None = None, **training: Any) -> Experiment:
    preset, batch = PRESETS[name]
    change = {f"training.{key}": value for key, value in {"device": "cuda", "batch": batch, **training}.items()}
    return Experiment(load_settings(preset, {"data.n": 1024, "evaluation.samples": 256, **change, **(more or {})}))


def losses(made: Experiment, steps: int, window: int) -> torch.Tensor:
    """Mean losses of consecutive windows, on the data and noise of (seed, step)."""
    step, found = made.make_step(), []
    for number in range(1, steps + 1):
        step(number)
        if number % window == 0:
            found.append(float(made.loop.loss_sum) / window)
            made.loop.loss_sum.zero_()
    return torch.tensor(found)


def weights(made: Experiment) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in made.network.parameters()])


def distance(one: Experiment, other: Experiment) -> float:
    """How far the weights of two networks are apart, relative to their norm."""
    return float((weights(one) - weights(other)).norm() / weights(other).norm())


@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_are_the_steps(name: str) -> None:
    replayed, called = experiment(name), experiment(name, capture=False)
    assert torch.equal(weights(replayed), weights(called))
    first, second = losses(replayed, 20, 1), losses(called, 20, 1)
    assert torch.allclose(first, second, rtol=1e-4)
    assert distance(replayed, called) < 1e-4


@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_drop_by_the_key_of_their_step(name: str) -> None:
    """A key that stayed as it was when the step was captured would give other losses from the second step on."""
    more = {"model.dropout": 0.3, "model.registers": 4}
    replayed, called = (experiment(name, more, precision="float32", capture=capture) for capture in (True, False))
    assert torch.allclose(losses(replayed, 20, 1), losses(called, 20, 1), rtol=1e-3)


# What interventions change in a step, by name, and the presets to which each applies. Curricula end within 20 steps.
CHANGED_STEPS: dict[str, dict[str, Any]] = {
    "augmentation": {"data.augment": True},
    "noisy data": {"data.noise": 0.1},
    "easier groups first": {"data.easier_group": 2, "data.easier_steps": 8},
    "trimmed loss": {"training.trim": 0.25},
    "masked loss": {"training.masked_loss": 1.0, "training.masked_share": 0.15},
    "noise curriculum": {"objective.first_shift": 1.5, "objective.shift_steps": 10},
}


@pytest.mark.parametrize("change", CHANGED_STEPS)
@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_show_and_minimise_what_interventions_say(name: str, change: str) -> None:
    """Whatever were fixed at the capture (rows, masks, shift) would give other losses from the second step on."""
    if name == "gpt" and change == "noise curriculum":
        pytest.skip("a GPT has no noise levels")
    more = CHANGED_STEPS[change]
    replayed, called = experiment(name, more), experiment(name, more, capture=False)
    first, second = losses(replayed, 20, 1), losses(called, 20, 1)
    assert torch.allclose(first, second, rtol=1e-4)
    assert distance(replayed, called) < 1e-4
    assert not torch.allclose(first, losses(experiment(name), 20, 1), rtol=1e-4)  # the change does something


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("kernels", ["fused", "plain"])
def test_replayed_steps_have_the_rate_of_their_step(kernels: str, optimizer: str) -> None:
    """A rate that stayed as it was when the step was captured would leave the weights of a constant rate."""
    change = {"kernels": kernels, "optimizer": optimizer, "warm_up": 8, "decay_steps": 24, "steps": 24}
    if optimizer == "sgd":
        change["learning_rate"] = 0.01
    replayed, called = experiment("gpt", **change), experiment("gpt", **change, capture=False)
    constant, before = experiment("gpt", **{**change, "warm_up": 0, "decay_steps": 0}), weights(replayed)
    for one in (replayed, called, constant):
        losses(one, 20, 1)
    moved = float((weights(called) - before).norm() / before.norm())
    assert distance(replayed, called) < 0.02 * moved
    assert distance(constant, called) > 0.2 * moved


@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_are_the_same_every_time(name: str) -> None:
    one, two = experiment(name), experiment(name)
    assert torch.equal(losses(one, 30, 10), losses(two, 30, 10)) and torch.equal(weights(one), weights(two))


@pytest.mark.parametrize("name", PRESETS)
def test_fused_registers_and_dropout_train_as_the_textbook_does(name: str) -> None:
    """Both round to bfloat16 in their own ways; other masks, or none, would change the losses by far more."""
    more = {"model.dropout": 0.3, "model.registers": 4}
    fused, plain = experiment(name, more), experiment(name, more, kernels="plain")
    assert isinstance(fused.network.fused, FlatForm) and not isinstance(plain.network.fused, FlatForm)
    first, second = losses(fused, 60, 20), losses(plain, 60, 20)
    assert torch.allclose(first, second, rtol=0.02), (first, second)


@pytest.mark.parametrize("name", PRESETS)
def test_fast_loss_curve_is_the_plain_one_within_bfloat16_noise(name: str) -> None:
    """Float32, TF32 and bfloat16 drift apart as chaos has it; the fast path may drift twice as far as TF32, or 2%."""
    exact = losses(experiment(name, precision="float32", kernels="plain"), 200, 20)
    tf32 = losses(experiment(name, precision="tf32", kernels="plain"), 200, 20)
    fast = losses(experiment(name), 200, 20)
    noise = max(0.02, 2 * float((tf32 / exact - 1).abs().max()))
    assert float((fast / exact - 1).abs().max()) < noise
    assert abs(float(fast[0] / exact[0] - 1)) < 0.01  # before chaos sets in


@pytest.mark.parametrize("name", PRESETS)
def test_replayed_samples_are_the_samples_of_the_current_weights(name: str) -> None:
    made = experiment(name)

    @torch.no_grad()
    def samples() -> torch.Tensor:
        return made.sample().clone()

    fresh = samples()
    assert torch.equal(samples(), fresh)  # the second is the graph's first replay
    losses(made, 40, 40)
    replayed = samples()
    made.samplers.clear()
    assert torch.equal(samples(), replayed) and not torch.equal(replayed, fresh)


@pytest.mark.parametrize("preset", ["gpt-text", "p2-md4-text"])
@torch.no_grad()
def test_replayed_prompts_are_continued_by_the_current_weights(preset: str) -> None:
    change = {"training.device": "cuda", "training.average": 0, "data.n": 64, "evaluation.prompts": 16}
    made = Experiment(load_settings(preset, change))
    extraction = made.extraction
    assert extraction is not None

    def continued() -> torch.Tensor:
        return extraction.continued(made.network, "train").clone()

    fresh = continued()
    assert torch.equal(continued(), fresh)  # the second is the graph's first replay
    with torch.enable_grad():
        losses(made, 20, 20)
    replayed = continued()
    extraction.samplers.clear()
    assert torch.equal(continued(), replayed) and not torch.equal(replayed, fresh)
    prefix = made.settings.evaluation.prefix
    assert torch.equal(replayed[:, :prefix], extraction.texts["train"][:, :prefix])


@pytest.mark.parametrize("name", PRESETS)
def test_a_resumed_fast_run_goes_on_as_if_nothing_happened(name: str) -> None:
    whole = experiment(name)
    losses(whole, 24, 12)
    first = experiment(name)
    losses(first, 12, 12)
    kept = {key: value.clone() for key, value in first.state().items()}
    second = experiment(name)
    second.load_state(12, -1, kept)
    step = second.make_step()
    for number in range(13, 25):
        step(number)
    assert torch.equal(weights(second), weights(whole))


@pytest.mark.parametrize("kernels", ["fused", "plain"])
@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_average_the_weights_of_every_step(name: str, kernels: str) -> None:
    """And change nothing in training: with averages, weights are as near to those without as equal runs to each other.

    The fused kernels always add in the same order. PyTorch's own backward passes do not: equal runs differ in the last
    bits, and drift apart.
    """
    made, *plain = experiment(name, average=0.7, kernels=kernels), *(experiment(name, kernels=kernels) for _ in "abc")
    assert made.average is not None
    before, step = weights(made), made.make_step()
    slow = before.double()
    for number in range(1, 31):
        step(number)
        keep = min(0.7, (1 + number) / (10 + number))
        slow = keep * slow + (1 - keep) * weights(made).double()
    averaged = torch.cat([p.detach().flatten() for p in made.average.network.parameters()])
    assert int(made.average.updates) == 30
    assert float((averaged - slow).norm() / slow.norm()) < 1e-6 < float((averaged - weights(made)).norm() / slow.norm())
    for one in plain:
        losses(one, 30, 30)
    drift = max(distance(one, other) for one, other in combinations(plain, 2))
    assert min(distance(made, one) for one in plain) <= 2 * drift
    # Small against how far training has gone, which averages in place of the weights would shorten by more than half.
    moved = float((weights(plain[0]) - before).norm() / before.norm())
    assert drift == 0 if kernels == "fused" else drift < 0.1 * moved
    with torch.no_grad():
        samples = made.sample(made.average.current()).clone()
        assert torch.equal(made.sample(made.average.current()), samples)  # the graph's first replay
        plain[0].load_weights(made.average.network.state_dict())
        assert torch.equal(plain[0].sample(), samples)


def grammar(device: str, **training: Any) -> Experiment:
    """A narrow U-Net in the layout of P2's authors, in shuffled epochs of which no step is a whole number."""
    chosen = {"device": device, "precision": "float32", "batch": 24, "threads": 1, **training}
    change = {"model.width": 64, "data.n": 100, "training": chosen, "objective.sampler_levels": 20}
    return Experiment(load_settings("p2-rhm-l3-authors", {**change, "evaluation.samples": 256}))


def test_replayed_epochs_are_the_epochs() -> None:
    replayed, called = grammar("cuda"), grammar("cuda", capture=False)
    first, second = losses(replayed, 30, 1), losses(called, 30, 1)
    assert torch.allclose(first, second, rtol=1e-4)
    assert distance(replayed, called) < 1e-4


def test_steps_on_the_gpu_are_those_of_the_cpu() -> None:
    """The same rows, levels and noise, drawn on the CPU: the same weights after ten steps, up to rounding."""
    made = {device: grammar(device) for device in ("cpu", "cuda")}
    before, generator = weights(made["cpu"]), torch.Generator()
    for number in range(1, 11):
        order = EpochOrder(100, 24, 0, torch.device("cpu"))
        order.begin(number)
        clean = made["cpu"].encode(made["cpu"].train_rows)[order.rows()]
        drawn = made["cpu"].objective.draw(clean, generator.manual_seed(number))
        for device, one in made.items():
            given = (part.to(device) for part in (clean, *drawn))
            one.optimizer.zero_grad()
            one.objective.loss_given(one.network, *given).mean().backward()
            one.optimizer.step()
    moved = float((weights(made["cpu"]) - before).norm())
    assert float((weights(made["cuda"]).cpu() - weights(made["cpu"])).norm()) < 0.01 * moved
