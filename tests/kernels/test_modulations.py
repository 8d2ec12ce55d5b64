"""Gradients of the layers that make modulations: begun as soon as they can be, and the same as autograd's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.models import Network

pytest.importorskip("triton")
from twoclocks.kernels.operations import Update
from twoclocks.kernels.triton_operations import TritonOperations

pytestmark = pytest.mark.slow
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOOSE = 1e-3 if DEVICE == "cuda" else 1e-5


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


class Modulated(Network):
    """Normalisations whose modulations come from two layers; ``use`` says which are used more than once."""

    def __init__(self, use: str = "once") -> None:
        super().__init__()
        self.use = use
        self.first, self.second = nn.Linear(16, 32), nn.Linear(16, 48)
        self.operations = TritonOperations(self, torch.float32, [[self.first, self.second]])

    def forward(self, x: Tensor, condition: Tensor, fused: bool = True) -> Tensor:
        layers = self.first, self.second
        if fused:
            vectors = self.operations.modulations(condition, layers)
        else:
            vectors = torch.cat([layer(condition) for layer in layers], dim=1).split(16, dim=1)
        x, normed = self.modulate(fused, x, None, vectors[0], vectors[1])
        again = vectors[0 if self.use == "twice" else 3]
        _, normed = self.modulate(fused, x, Update(normed, gate=vectors[2]), again, vectors[4])
        return normed + vectors[1][:, None] if self.use == "elsewhere" else normed

    def modulate(
        self, fused: bool, x: Tensor, update: Update | None, shift: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        if fused:
            return self.operations.modulate(x, update, shift, scale, 1e-6)
        x = x if update is None else x + update.gate[:, None] * update.value
        return x, functional.layer_norm(x, (16,), eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


@pytest.mark.parametrize("use", ["once", "twice"])
def test_gradients_of_modulations_are_autograds(use: str) -> None:
    """Those of a layer are begun when all its vectors have theirs; with one of two uses, or of none, at the end."""
    network = with_operations(use)
    flat, begun = network.operations.flat, []
    gradient = network.operations.modulation_gradient
    network.operations.modulation_gradient = lambda layer, *more: (begun.append(layer), gradient(layer, *more))
    given = torch.randn(5, 3, 16, device=DEVICE), torch.randn(5, 16, device=DEVICE, requires_grad=True)
    weight = torch.randn(5, 3, 16, device=DEVICE)
    before = flat.values.clone()
    flat.early_update = lambda start, end, shadows: (flat.values[start:end].add_(1.0), shadows and 1 / 0)
    (network(*given) * weight).sum().backward()
    d_condition, given[1].grad = given[1].grad, None
    network.operations.join()
    assert begun == [network.second, network.first] if use == "once" else [network.first, network.second]
    start, end = flat.places[network.first.weight][0], flat.places[network.second.weight][1]
    assert torch.equal(flat.values[start:end], before[start:end] + 1)
    assert torch.equal(flat.shadows[start:end], flat.values[start:end])  # renewed after the last product
    flat.values.copy_(before)
    slopes = {parameter: flat.slots[parameter].clone() for parameter in network.parameters()}
    network.zero_grad(set_to_none=True)
    (network(*given, fused=False) * weight).sum().backward()
    assert difference(d_condition, given[1].grad) < LOOSE
    for parameter in network.parameters():
        assert difference(slopes[parameter], parameter.grad) < LOOSE


def test_a_modulation_that_other_operations_use_too_is_refused() -> None:
    network = with_operations("elsewhere")
    out = network(torch.randn(5, 3, 16, device=DEVICE), torch.randn(5, 16, device=DEVICE, requires_grad=True))
    with pytest.raises(ValueError, match="modulation is used by other operations"):
        out.square().sum().backward()


def with_operations(use: str = "once") -> Modulated:
    torch.manual_seed(0)
    network = Modulated(use).to(DEVICE)
    network.operations = TritonOperations(network, torch.float32, [[network.first, network.second]])
    return network


def some(n: int = 5) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 3, 16, device=DEVICE), torch.randn(n, 16, device=DEVICE, requires_grad=True)


def slopes(network: Modulated) -> dict[str, Tensor]:
    """The gradients of a backward pass, which are forgotten."""
    network.operations.join()
    found = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}
    network.zero_grad(set_to_none=True)
    return found


def test_a_second_backward_pass_through_the_same_graph_gives_the_same() -> None:
    network, given = with_operations(), some()
    loss = network(*given).square().sum()
    loss.backward(retain_graph=True)
    first = slopes(network)
    loss.backward()
    again = slopes(network)
    assert all(torch.equal(again[name], slope) and slope.any() for name, slope in first.items())


def test_backward_passes_need_not_follow_their_forward_passes_at_once() -> None:
    """A forward pass of other rows between the two, with gradients or without, changes nothing."""
    network, given, other = with_operations(), some(), some(4)
    network(*given).square().sum().backward()
    true = slopes(network)
    mine, theirs = network(*given).square().sum(), network(*other).square().sum()
    with torch.no_grad():
        network(*other)
    mine.backward()
    found = slopes(network)
    assert all(torch.equal(found[name], slope) for name, slope in true.items())
    theirs.backward()
    network.operations.join()
    assert not torch.equal(network.first.weight.grad, true["first.weight"])


def test_all_samples_may_share_their_modulations() -> None:
    network, (x, _) = with_operations(), some()
    condition, weight = torch.randn(1, 16, device=DEVICE, requires_grad=True), torch.randn(5, 3, 16, device=DEVICE)
    (network(x, condition) * weight).sum().backward()
    found, d_condition = slopes(network), condition.grad
    condition.grad = None
    (network(x, condition.expand(5, 16), fused=False) * weight).sum().backward()
    assert difference(d_condition, condition.grad) < LOOSE
    for name, parameter in network.named_parameters():
        assert difference(found[name], parameter.grad) < LOOSE


def test_a_vector_of_another_tensor_has_memory_of_its_own() -> None:
    network, (x, condition) = with_operations(), some()
    own = torch.randn(5, 16, device=DEVICE, requires_grad=True)
    vectors = network.operations.modulations(condition, (network.first, network.second))
    _, normed = network.operations.modulate(x, None, own, vectors[1], 1e-6)
    normed.square().sum().backward()
    shift = own.detach().requires_grad_()
    plain = functional.layer_norm(x, (16,), eps=1e-6) * (1 + vectors[1].detach()[:, None]) + shift[:, None]
    plain.square().sum().backward()
    assert difference(own.grad, shift.grad) < LOOSE
