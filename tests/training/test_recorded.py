"""Steps from recordings are the steps of autograd, to the last bit, whatever happens to the network between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from twoclocks import models, objectives
from twoclocks.models import MODELS
from twoclocks.objectives import OBJECTIVES
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.masked_loss import MaskedLoss
from twoclocks.training.recorded import CHECKS, RecordedGradient, recordable
from twoclocks.training.step import PlainStep

SMALL = {"model.width": 16, "model.depth": 1, "model.heads": 2, "training.batch": 7, "data.n": 16}
ON_CPU = {"training.device": "cpu", "training.precision": "float32"}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "dit": ("demo", SMALL),
    "gpt": ("demo-gpt", SMALL),
    "dropout": ("demo-gpt", {**SMALL, "model.dropout": 0.3}),
    "dropout of images": ("demo", {**SMALL, "model.dropout": 0.3, "model.registers": 2}),
    "masked loss": ("demo", {**SMALL, "training.masked_loss": 0.5}),
    "trimmed loss": ("demo-gpt", {**SMALL, "training.trim": 0.4}),
    "curriculum": ("demo", {**SMALL, "objective.shift_steps": 10, "objective.first_shift": 1.0}),
    "easier rows": ("demo", {**SMALL, "rule.group": 4, "data.easier_group": 2, "data.easier_steps": 3}),
    "augmentation": ("demo", {**SMALL, "data.augment": True}),
    "warm-up": ("demo", {**SMALL, "training.warm_up": 4, "training.average": 0.9}),
    "textbook": ("demo", {**SMALL, "training.kernels": "plain"}),
    "grammar": ("p2-rhm-small", {"training.batch": 7}),
    "masked tokens": ("p2-md4-rhm", {**SMALL, **ON_CPU, "training.batch": 4}),
    "images": ("p2-digits", {**ON_CPU, "training.batch": 4, "data.n": 16}),
    "authors' grammar": ("p2-rhm-l3-authors", {**ON_CPU, "model.width": 16, "training.batch": 7, "data.n": 64}),
    "one hidden layer": ("p2-kernel-small", {**ON_CPU, "model.width": 16, "training.batch": 4, "data.n": 16}),
    "images of Gaussian diffusion": ("images-small", {**ON_CPU, "training.batch": 4, "data.n": 16}),
}


def experiment(name: str, **training: Any) -> Experiment:
    preset, change = RUNS[name]
    more = {f"training.{key}": value for key, value in {"threads": 1, **training}.items()}
    return Experiment(load_settings(preset, {**change, **more}))


def weights(one: Experiment) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in one.network.parameters()])


def gradient_of(one: Experiment) -> tuple[Callable[[int], None], RecordedGradient]:
    step = one.make_step()
    assert type(step.update) is PlainStep and isinstance(step.update.gradient, RecordedGradient)
    return step, step.update.gradient


def counted(gradient: RecordedGradient, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches whose gradient autograd computes."""
    calls: list[int] = []
    compute = gradient.compute
    monkeypatch.setattr(gradient, "compute", lambda size, *given: (calls.append(size), compute(size, *given))[1])
    return calls


@pytest.mark.parametrize("name", RUNS)
def test_recorded_steps_are_those_of_autograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, eager = experiment(name), experiment(name, capture=False)
    (ours, gradient), theirs = gradient_of(recorded), eager.make_step()
    assert isinstance(theirs.update, PlainStep) and theirs.update.gradient is None
    calls, before = counted(gradient, monkeypatch), weights(recorded)
    for number in range(1, CHECKS + 6):
        ours(number)
        theirs(number)
        assert torch.equal(weights(recorded), weights(eager)), f"step {number}"
    assert gradient.objection == "" and len(calls) == 1 + CHECKS, "later steps repeat the recording alone"
    assert torch.equal(recorded.loop.loss_sum, eager.loop.loss_sum) and not torch.equal(weights(recorded), before)


def test_all_built_in_networks_and_objectives_are_recorded_above() -> None:
    """And nothing else is, unless its own class says so."""
    runs = [experiment(name) for name in RUNS]
    tried = {type(one.network) for one in runs} | {type(one.objective) for one in runs}
    built_in = {type(MODELS.get(name)().build(*MODELS.get(name).example)) for name in MODELS.names()}
    assert {one for one in built_in if vars(one).get("recordable")} <= tried
    own = [OBJECTIVES.get(name) for name in OBJECTIVES.names()]
    assert all(vars(one).get("recordable") is True for one in own)

    class Further(type(runs[0].network)):  # type: ignore[misc]
        pass

    network, objective = runs[0].network, runs[0].objective
    assert recordable(network, objective) and recordable(network, MaskedLoss(objective, 1.0, 0.5))
    network.__class__ = Further
    assert not recordable(network, objective)


class Counting(models.Network):
    """Its output depends on how often it was called, though it says that it does not."""

    recordable: ClassVar[bool] = True

    def __init__(self, calls_that_differ: range) -> None:
        super().__init__()
        self.layer, self.calls, self.range = nn.Linear(3, 3), 0, calls_that_differ

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.layer(x) * (2.0 if self.calls in self.range else 1.0)
        return out


def loss(network: nn.Module) -> Callable[..., Tensor]:
    return lambda size, rows: network(rows).square().sum() / size


@pytest.mark.parametrize("first", range(2, 2 + CHECKS))
def test_a_network_that_is_not_the_same_every_time_is_found_out(first: int) -> None:
    network = Counting(range(first, 100))
    gradient = RecordedGradient(network, loss(network))
    for _ in range(1 + CHECKS):
        gradient(4, torch.randn(4, 3))
    assert "another result" in gradient.objection
    rows = torch.randn(4, 3)
    found = gradient(4, rows)
    assert torch.equal(found, loss(network)(4, rows).detach())


def change_weights(network: nn.Module) -> None:
    """In place, as optimizers and checkpoints do: a recording reads them where they are."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.5)


def move_weights(network: nn.Module) -> None:
    for parameter in network.parameters():
        parameter.data = parameter.data * 0.5


def add_hook(network: nn.Module) -> None:
    network.layer.register_forward_hook(lambda layer, given, out: 3 * out)  # type: ignore[union-attr]


def add_hook_of_a_weight(network: nn.Module) -> None:
    network.layer.weight.register_hook(lambda slope: 3 * slope)  # type: ignore[union-attr]


def add_hook_before(network: nn.Module) -> None:
    network.layer.register_forward_pre_hook(lambda layer, given: (3 * given[0],))  # type: ignore[union-attr]


def replace_layer(network: nn.Module) -> None:
    network.layer = nn.Linear(3, 3)


def freeze_bias(network: nn.Module) -> None:
    network.layer.bias.requires_grad_(False)  # type: ignore[union-attr]
    network.layer.bias.grad = None  # type: ignore[union-attr]


def move_buffer(network: nn.Module) -> None:
    network.factor = 3 * network.factor  # type: ignore[operator]


def evaluate(network: nn.Module) -> None:
    network.eval()


class Simple(models.Network):
    recordable: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = nn.Linear(3, 3), nn.Linear(2, 2)
        self.register_buffer("factor", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) * self.factor + (1.0 if self.training else 0.0)
        return out


CHANGES = [
    change_weights, move_weights, add_hook, add_hook_of_a_weight, add_hook_before, replace_layer, freeze_bias,
    move_buffer, evaluate,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_happens_to_the_network_reaches_the_next_step(change: Callable[[nn.Module], None]) -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 2):
        gradient(4, torch.randn(4, 3))
    change(network)
    for _ in range(CHECKS + 2):
        rows = torch.randn(4, 3)
        found = gradient(4, rows), [one.grad for one in network.parameters()]
        found = found[0], [None if one is None else one.clone() for one in found[1]]
        network.zero_grad()
        expected = loss(network)(4, rows)
        expected.backward()
        assert torch.equal(found[0], expected.detach())
        for mine, parameter in zip(found[1], network.parameters(), strict=True):
            assert (mine is None) == (parameter.grad is None)
            assert mine is None or parameter.grad is None or torch.equal(mine, parameter.grad)
    assert gradient.objection == ""


def test_hooks_are_called_in_every_step() -> None:
    network, seen = Simple(), []
    gradient = RecordedGradient(network, loss(network))
    for number in range(3 * CHECKS):
        if number == CHECKS + 2:
            handle = network.layer.register_forward_hook(lambda *given: seen.append("forward"))
            network.layer.weight.register_hook(lambda slope: seen.append("backward"))
        gradient(4, torch.randn(4, 3))
    handle.remove()
    assert seen == ["forward", "backward"] * (2 * CHECKS - 2)


def test_batches_of_other_sizes_and_shapes_have_recordings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Simple()
    gradient = RecordedGradient(network, loss(network))
    calls = counted(gradient, monkeypatch)
    for _ in range(CHECKS + 3):
        for size, rows in ((4, torch.randn(4, 3)), (8, torch.randn(4, 3)), (4, torch.randn(2, 3))):
            assert torch.equal(gradient(size, rows), loss(network)(size, rows).detach())
    assert len(calls) == 3 * (1 + CHECKS)


def test_a_diverged_network_is_recorded_all_the_same() -> None:
    """NaN is not equal to itself, and is no objection."""
    network = Simple()
    change_weights(network)
    with torch.no_grad():
        network.layer.weight.fill_(float("nan"))
    gradient = RecordedGradient(network, loss(network))
    for _ in range(CHECKS + 2):
        assert bool(gradient(4, torch.randn(4, 3)).isnan())
    assert gradient.objection == ""


def test_gradients_lie_in_memory_as_their_weights_do() -> None:
    """Optimizers go through both side by side."""
    one = experiment("gpt")
    step, _ = gradient_of(one)
    step(1)
    step(2)
    assert all(p.grad is not None and p.grad.stride() == p.stride() for p in one.network.parameters())


def test_random_numbers_of_torchs_own_stream_are_not_recorded() -> None:
    class Noisy(Simple):
        recordable: ClassVar[bool] = True

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.randn(3)

    network = Noisy()
    gradient = RecordedGradient(network, loss(network))
    rows = torch.randn(4, 3)
    assert len({float(gradient(4, rows)) for _ in range(5)}) == 5
    assert gradient.objection == "random numbers are drawn"


def test_objectives_that_somebody_registers_are_not_recorded_unless_they_say_so() -> None:
    class Mine(type(objectives.create("edm"))):  # type: ignore[misc]
        pass

    assert recordable(experiment("dit").network, objectives.create("edm"))
    assert not recordable(experiment("dit").network, Mine())
