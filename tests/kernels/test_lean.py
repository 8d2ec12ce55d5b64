"""The lean operations against their plain twins: outputs, every gradient, the optimizer, and replicas."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from twoclocks import models
from twoclocks.kernels import PLAIN, branches, lean
from twoclocks.kernels.flat_adam import FlatAdam
from twoclocks.kernels.flat_descent import FlatDescent
from twoclocks.kernels.lean import LeanOperations
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.testing.contracts import randomised
from twoclocks.training.loop import TrainingSettings, make_operations
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.thread_pool import replicas

CASES = [
    *[("dit", (1, 3, 4), 2, n) for n in (1, 5)],
    *[("dit", (3, 2, 5), 2, 3), ("dit", (1, 6, 8), 2, 2)],
    *[("gpt", (10,), 2, 5), ("gpt", (17,), 5, 1), ("gpt", (48,), 40, 3)],
]


def inputs(name: str, shape: tuple[int, ...], symbols: int, n: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    if name == "gpt":
        tokens = torch.randint(symbols, (n, *shape), generator=generator)
        tokens[:, 0] = -1
        return (tokens,)
    return torch.randn((n, *shape), generator=generator), torch.randn(n, generator=generator)


def twins(name: str, shape: tuple[int, ...], symbols: int) -> tuple[nn.Module, nn.Module]:
    plain = randomised(models.create(name, width=24, depth=2, heads=3), shape, symbols)
    other = copy.deepcopy(plain)
    other.operations = LeanOperations(other)  # type: ignore[assignment]
    return plain, other


def gradients(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    network.zero_grad(set_to_none=True)
    out = network(*given)
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    network.operations.join()  # type: ignore[union-attr, operator]
    found = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    assert set(found) == {name for name, _ in network.named_parameters()}
    return out.detach(), found


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("name", "shape", "symbols", "n"), CASES)
def test_lean_network_has_the_outputs_and_gradients_of_the_plain_one(
    name: str, shape: tuple[int, ...], symbols: int, n: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(lean, "forward", branches.forward)
        monkeypatch.setattr(lean, "backward", branches.backward)
    plain, other = twins(name, shape, symbols)
    given = inputs(name, shape, symbols, n)
    (out, slopes), (out_lean, slopes_lean) = gradients(plain, given), gradients(other, given)
    assert difference(out_lean, out) < 1e-5
    for key, slope in slopes.items():
        assert difference(slopes_lean[key], slope) < 1e-4, key
    with torch.no_grad():
        assert difference(other(*given), out) < 1e-5


def test_one_noise_level_for_all_samples() -> None:
    plain, other = twins("dit", (1, 3, 4), 2)
    x, label = inputs("dit", (1, 3, 4), 2, 5)
    (out, slopes), (out_lean, slopes_lean) = (gradients(network, (x, label[:1])) for network in (plain, other))
    assert difference(out_lean, out) < 1e-5
    assert all(difference(slopes_lean[key], slope) < 1e-4 for key, slope in slopes.items())


def test_the_gradient_of_the_input() -> None:
    slopes = []
    for network in twins("dit", (1, 3, 4), 2):
        x, label = inputs("dit", (1, 3, 4), 2, 5)
        network(x.requires_grad_(), label).square().sum().backward()
        slopes.append(x.grad)
    assert slopes[0] is not None and slopes[1] is not None and difference(slopes[1], slopes[0]) < 1e-4


def test_gradients_are_the_same_every_time_and_belong_to_the_last_batch() -> None:
    _, network = twins("dit", (1, 3, 4), 2)
    given = inputs("dit", (1, 3, 4), 2, 5)
    first = gradients(network, given)[1]
    gradients(network, (given[0][:2] + 1, given[1][:2]))
    again = gradients(network, given)[1]
    assert all(torch.equal(again[key], slope) for key, slope in first.items())


def test_replicas_follow_the_weights_and_keep_their_own_gradients() -> None:
    plain, network = twins("dit", (1, 3, 4), 2)
    _, replica = replicas(network, 2)
    with torch.no_grad():
        for mine, theirs in zip(plain.parameters(), network.parameters(), strict=True):
            theirs.add_(0.01)
            mine.add_(0.01)
    given = inputs("dit", (1, 3, 4), 2, 5)
    slopes_plain, slopes = gradients(plain, given)[1], gradients(replica, given)[1]
    assert all(difference(slopes[key], slope) < 1e-4 for key, slope in slopes_plain.items())
    assert all(p.grad is None for p in network.parameters())
    assert not bool(network.operations.flat.gradients.any())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("optimizer", "decay"), [("adam", 0.0), ("adam", 0.1), ("adamw", 0.1), ("sgd", 0.0), ("sgd", 0.1)]
)
def test_flat_adam_is_torchs(optimizer: str, decay: float) -> None:
    plain, other = twins("gpt", (10,), 2)
    settings = TrainingSettings(steps=1, optimizer=optimizer, weight_decay=decay, learning_rate=1e-2)  # type: ignore[arg-type]
    ours, theirs = make_optimizer(other, settings), make_optimizer(plain, settings)
    assert isinstance(ours, FlatAdam | FlatDescent) and not isinstance(theirs, FlatAdam | FlatDescent)
    generator = torch.Generator().manual_seed(0)
    for step in range(20):
        for mine, parameter in zip(other.parameters(), plain.parameters(), strict=True):
            mine.grad = torch.randn(mine.shape, generator=generator) * 10.0 ** (step % 5 - 4)
            parameter.grad = mine.grad.clone()
        other.operations.join()  # type: ignore[union-attr, operator]
        ours.step()
        theirs.step()
        if step == 10:  # their states are interchangeable
            theirs.load_state_dict(
                {**copy.deepcopy(ours.state_dict()), "param_groups": theirs.state_dict()["param_groups"]}
            )
            ours.load_state_dict(
                {**copy.deepcopy(theirs.state_dict()), "param_groups": ours.state_dict()["param_groups"]}
            )
    for mine, parameter in zip(other.parameters(), plain.parameters(), strict=True):
        assert difference(mine.detach(), parameter.detach()) < 1e-6


def test_who_gets_lean_operations() -> None:
    network = models.create("gpt", width=16, depth=1, heads=2).build((4,), 2)
    chosen = {"precision": "float32", "kernels": "fused"}
    assert isinstance(make_operations(network, TrainingSettings(steps=1, **chosen)), LeanOperations)  # type: ignore[arg-type]
    assert make_operations(network, TrainingSettings(steps=1, **chosen | {"kernels": "plain"})) is PLAIN  # type: ignore[arg-type]
    assert make_operations(network, TrainingSettings(steps=1, **chosen | {"precision": "tf32"})) is PLAIN  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_a_run_is_the_plain_run_up_to_rounding(preset: str, threads: int) -> None:
    change = {
        "model": {"width": 16, "depth": 1, "heads": 2},
        "evaluation.samples": 256,
        "training.steps": 5,
        "evaluation.first": 1,
    }
    ends = []
    for kernels in ("fused", "plain"):
        experiment = Experiment(
            load_settings(preset, {**change, "training.kernels": kernels, "training.threads": threads})
        )
        experiment.train(lambda step, loss: None)
        ends.append(experiment.state())
    assert set(ends[0]) == set(ends[1])
    assert all(torch.allclose(value, ends[1][key], atol=1e-4) for key, value in ends[0].items() if key != "loop.stream")


def test_the_branches_are_compiled() -> None:
    """In Python they are right too, but threads wait for each other."""
    assert isinstance(lean.forward, torch.jit.ScriptFunction) and isinstance(lean.backward, torch.jit.ScriptFunction)


def test_without_a_compiler_the_functions_are_used_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: object) -> None:
        raise RuntimeError("not for this Python")

    monkeypatch.setattr(torch.jit, "script", refuse)
    assert lean.compiled(branches.forward) is branches.forward
