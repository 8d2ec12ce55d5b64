"""What only a GPU can show: replayed steps are the steps, and fast training is the plain training within its noise."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.order import EpochOrder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
PRESETS = {"dit": ("p1-dit-mini", 256), "gpt": ("p1-gpt-mini", 128)}


def experiment(name: str, **training: Any) -> Experiment:
    preset, batch = PRESETS[name]
    change = {f"training.{key}": value for key, value in {"device": "cuda", "batch": batch, **training}.items()}
    return Experiment(load_settings(preset, {"data.n": 1024, "evaluation.samples": 256, **change}))


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


@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_are_the_steps(name: str) -> None:
    replayed, called = experiment(name), experiment(name, capture=False)
    assert torch.equal(weights(replayed), weights(called))
    first, second = losses(replayed, 20, 1), losses(called, 20, 1)
    assert torch.allclose(first, second, rtol=1e-4)
    assert float((weights(replayed) - weights(called)).norm() / weights(called).norm()) < 1e-4


@pytest.mark.parametrize("name", PRESETS)
def test_replayed_steps_are_the_same_every_time(name: str) -> None:
    one, two = experiment(name), experiment(name)
    assert torch.equal(losses(one, 30, 10), losses(two, 30, 10)) and torch.equal(weights(one), weights(two))


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
    made, plain = experiment(name, average=0.7, kernels=kernels), experiment(name, kernels=kernels)
    assert made.average is not None
    slow, step = weights(made).double(), made.make_step()
    for number in range(1, 31):
        step(number)
        keep = min(0.7, (1 + number) / (10 + number))
        slow = keep * slow + (1 - keep) * weights(made).double()
    averaged = torch.cat([p.detach().flatten() for p in made.average.network.parameters()])
    assert int(made.average.updates) == 30
    assert float((averaged - slow).norm() / slow.norm()) < 1e-6 < float((averaged - weights(made)).norm() / slow.norm())
    losses(plain, 30, 30)
    if kernels == "fused":
        assert torch.equal(weights(made), weights(plain))
    else:  # PyTorch's own backward passes add in any order, so two runs differ in the last bits
        assert float((weights(made) - weights(plain)).norm() / weights(plain).norm()) < 1e-4
    with torch.no_grad():
        samples = made.sample(made.average.current()).clone()
        assert torch.equal(made.sample(made.average.current()), samples)  # the graph's first replay
        plain.load_weights(made.average.network.state_dict())
        assert torch.equal(plain.sample(), samples)


def grammar(device: str, **training: Any) -> Experiment:
    """A narrow U-Net in the layout of P2's authors, in shuffled epochs of which no step is a whole number."""
    chosen = {"device": device, "precision": "float32", "batch": 24, "threads": 1, **training}
    change = {"model.width": 64, "data.n": 100, "training": chosen, "objective.sampler_levels": 20}
    return Experiment(load_settings("p2-rhm-l3-authors", {**change, "evaluation.samples": 256}))


def test_replayed_epochs_are_the_epochs() -> None:
    replayed, called = grammar("cuda"), grammar("cuda", capture=False)
    first, second = losses(replayed, 30, 1), losses(called, 30, 1)
    assert torch.allclose(first, second, rtol=1e-4)
    assert float((weights(replayed) - weights(called)).norm() / weights(called).norm()) < 1e-4


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
