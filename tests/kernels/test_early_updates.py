"""Updates that begin during the backward pass: the same as after it, whatever happens in between."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from twoclocks.models import Network
from twoclocks.training.step import updates_early

pytest.importorskip("triton")
from fused_networks import DEVICE, HALF, difference, gradients, inputs, twins

from twoclocks.kernels.adam import FlatAdam
from twoclocks.kernels.triton_operations import TritonForm, TritonOperations

pytestmark = pytest.mark.slow  # Triton's interpreter takes about a second per network


def early_and_late(
    early: nn.Module, given: tuple[Tensor, ...], steps: int
) -> tuple[list[FlatAdam], list[list[tuple[int, int]]]]:
    """Train a network with updates during the backward pass, and its copy with updates after it: equal to the bit."""
    late = copy.deepcopy(early)
    late.fused = TritonForm(late, HALF)
    optimizers, parts = [FlatAdam(network.fused.flat, lr=1e-2) for network in (early, late)], []
    for step in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        with optimizers[0].during_backward():
            gradients(early, given)
        gradients(late, given)
        parts.append(list(optimizers[0].updated))
        one, other = early.fused.flat, late.fused.flat
        for optimizer in optimizers:
            optimizer.step()
        names = {parameter: name for name, parameter in early.named_parameters()}
        for kind in ("gradients", "values", "shadows"):
            pairs = zip(one.parameters, other.parameters, strict=True)
            there = [(names[a], one.view(getattr(one, kind), a), other.view(getattr(other, kind), b)) for a, b in pairs]
            assert [name for name, mine, theirs in there if not torch.equal(mine, theirs)] == [], (kind, step)
    return optimizers, parts


@pytest.mark.parametrize(("name", "shape"), [("dit", (1, 2, 3)), ("gpt", (9,))])
def test_updates_during_the_backward_pass_are_those_after_it(name: str, shape: tuple[int, ...]) -> None:
    """A shadow that is renewed before the backward pass has read it would change all gradients in front of it."""
    _, early = twins(name, shape, 2, HALF, depth=3)
    optimizers, parts = early_and_late(early, inputs(name, shape, 2), steps=3)
    sizes = [sum(end - start for start, end in changed) for changed in parts]
    layers = [layer for block in early.blocks for layer in block.modules() if isinstance(layer, nn.Linear)]
    assert min(sizes) >= sum(layer.weight.numel() for layer in layers) and optimizers[0].updated == []
    assert early.fused.flat.early_update is None


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU, where the streams of a backward pass overtake each other")
@pytest.mark.parametrize(("name", "shape"), [("dit", (1, 6, 6)), ("gpt", (37,))])
def test_updates_during_the_backward_pass_are_those_after_it_at_the_size_of_a_run(
    name: str, shape: tuple[int, ...]
) -> None:
    _, early = twins(name, shape, 2, HALF, width=384, depth=6)
    early_and_late(early, inputs(name, shape, 2, n=256), steps=20)


class Between(Network):
    """A layer with a parameter of its own between weight and bias, and layers that lie one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        bias = self.layer.bias
        del self.layer.bias
        self.layer.scale = nn.Parameter(torch.ones(16))
        self.layer.bias = bias
        self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)
        self.operations = TritonOperations(self, torch.float32, [[self.one, self.two]])

    def forward(self, x: Tensor) -> Tensor:
        do = self.operations
        for layer in (self.two, self.one, self.layer):
            update = do.update(x, layer)
            x = update.value * self.layer.scale + x
        return x


def test_an_early_update_changes_nothing_but_what_is_complete() -> None:
    torch.manual_seed(0)
    network = Between().to(DEVICE)
    early = network.operations.flat
    seen: list[tuple[int, int, bool]] = []
    early.early_update = lambda start, end, shadows: seen.append((start, end, shadows))
    for parameters in ([network.layer.weight, network.layer.bias], [network.one.weight, network.one.bias]):
        early.update_early(parameters)
    assert seen == []
    early.update_early([network.one.weight, network.two.weight])
    early.update_early([network.one.weight], shadows=False)
    (start, middle), (_, end) = early.places[network.one.weight], early.places[network.two.weight]
    assert seen == [(start, end, True), (start, middle, False)]
    early.update_early([network.layer.bias])  # 16 numbers, and the gap behind them
    assert seen[-1] == (early.places[network.layer.bias][0], early.places[network.layer.bias][0] + 64, True)


def test_a_backward_pass_that_fails_does_not_spoil_the_next_one() -> None:
    plain, network = twins("dit", (1, 2, 3), 2, torch.float32)
    optimizer, given = FlatAdam(network.fused.flat, lr=0.0), inputs("dit", (1, 2, 3), 2)

    def fail(gradient: Tensor) -> None:
        raise KeyError

    tokens: list[Tensor] = []
    embed = network.fused.operations.embed
    network.fused.operations.embed = lambda *more: (tokens.append(embed(*more)), tokens[-1])[1]
    out = network(*given)
    tokens[0].register_hook(fail)  # after all blocks
    with pytest.raises(KeyError), optimizer.during_backward():
        out.sum().backward()
    optimizer.step()
    network.zero_grad(set_to_none=True)
    (_, slopes), (_, slopes_fused) = gradients(plain, given), gradients(network, given)
    assert all(difference(slopes_fused[name], slope) < 1e-2 for name, slope in slopes.items())


def test_what_a_failed_backward_pass_left_is_not_updated_in_the_next_one() -> None:
    """Gradients that are complete in a pass that fails are those of its weights, not of the next one's."""
    _, network = twins("gpt", (6,), 2, HALF, depth=2)
    optimizer = FlatAdam(network.fused.flat, lr=1e-2)
    flat, operations = network.fused.flat, network.fused.operations
    first = network.blocks[1].expand
    with pytest.raises(KeyError), optimizer.during_backward():
        operations.on_side_stream(lambda: None, flat.values, ready=[first.weight, first.bias])
        raise KeyError
    before = flat.values.clone()
    optimizer.updated.append((0, 64))
    with optimizer.during_backward():
        assert optimizer.updated == []
        operations.join()
    assert torch.equal(flat.values, before) and optimizer.updated == []
    operations.on_side_stream(lambda: None, flat.values, ready=[first.weight, first.bias])  # somebody's own pass
    with optimizer.during_backward():
        operations.join()
    assert torch.equal(flat.values, before)


def test_a_training_step_updates_early_and_all_weights_and_biases_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = twins("gpt", (6,), 2, HALF, depth=2)
    optimizer = FlatAdam(network.fused.flat, lr=1e-2)
    flat = network.fused.flat
    early: list[tuple[int, int]] = []
    step = optimizer.step
    monkeypatch.setattr(optimizer, "step", lambda: (early.extend(optimizer.updated), step()))
    with updates_early(optimizer):
        gradients(network, inputs("gpt", (6,), 2))
    optimizer.step()
    layers = [layer for block in network.blocks for layer in block.modules() if isinstance(layer, nn.Linear)]
    for layer in layers:
        for parameter in (layer.weight, layer.bias):
            start, end = flat.places[parameter]
            assert any(begin <= start and end <= stop for begin, stop in early)
