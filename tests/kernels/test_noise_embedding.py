"""The fused noise embedding against the textbook's in float64, on Triton's interpreter or on the GPU."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.kernels.cpu_operations import CpuOperations
from twoclocks.models.base import distinct_labels
from twoclocks.models.dit import NoiseEmbedding

pytest.importorskip("triton")
from twoclocks.kernels import noise_embedding
from twoclocks.kernels.triton_operations import TritonOperations

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASES = [(1, 20, 2), (3, 64, 10), (70, 132, 256), (1, 132, 10), (3, 20, 256), (70, 64, 2)]
WALL = 8192  # entries beside what a kernel may touch


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """Other tests leave the setting of the process as a run needs it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


class Alone(nn.Module):
    """A network that is a noise embedding with weights of order one."""

    def __init__(self, frequencies: int, width: int) -> None:
        super().__init__()
        self.embedding = NoiseEmbedding(frequencies, width)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                scale = parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 1.0
                parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


def operations_of(network: nn.Module, dtype: torch.dtype) -> TritonOperations:
    """With NaN beside every weight, which must not be read, and 7 beside every gradient, which must stay."""
    operations = TritonOperations(network, dtype)
    operations.flat.values[beside(operations)] = torch.nan
    operations.flat.gradients.fill_(7.0)
    return operations


def beside(operations: TritonOperations) -> Tensor:
    """Where no parameter lies."""
    free = torch.ones_like(operations.flat.values, dtype=torch.bool)
    for start, end in operations.flat.places.values():
        free[start:end] = False
    return free


def labels(n: int) -> Tensor:
    return torch.linspace(-5, 4, n, device=DEVICE) if n > 1 else torch.tensor([1.7], device=DEVICE)


def slopes_of(condition: Tensor, parameters: Iterator[nn.Parameter], n: int) -> list[Tensor]:
    """Gradients of a weighted sum over n rows; the condition's gradient lies in memory column by column."""
    weights = torch.randn(condition.shape[1], n, generator=torch.Generator().manual_seed(1)).T.to(condition)
    (condition * weights).sum().backward()
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def textbook(network: Alone, label: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The condition and the gradients in float64."""
    exact = copy.deepcopy(network).double()
    condition = functional.silu(exact.embedding(distinct_labels(label).double()))
    return condition.detach(), slopes_of(condition, exact.parameters(), len(label))


def fused(network: Alone, label: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, list[Tensor]]:
    network = copy.deepcopy(network)  # its weights become the flat memory's, and have their gradients there
    operations = operations_of(network, dtype)
    condition = operations.noise_condition(label, network.embedding)
    assert condition.dtype == dtype
    slopes_of(condition, network.parameters(), len(label))
    operations.join()
    assert (operations.flat.gradients[beside(operations)] == 7).all()
    return condition.detach(), [operations.flat.slots[parameter] for parameter in network.parameters()]


def error(found: Tensor, true: Tensor) -> float:
    assert found.shape == true.shape
    return float((found.double() - true).norm() / true.norm())


def compare(network: Alone, label: Tensor, tolerance: float, dtype: torch.dtype = torch.float32) -> None:
    (true, true_slopes), (found, slopes) = textbook(network, label), fused(network, label, dtype)
    assert error(found, true) < tolerance
    assert len(slopes) == len(true_slopes) == 4
    for mine, other in zip(slopes, true_slopes, strict=True):
        assert error(mine, other) < tolerance


class Walled:
    """torch, with new memory in the middle of some that must stay as it is."""

    def __init__(self) -> None:
        self.memories: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def empty(self, *shape: int, **options: Any) -> Tensor:
        size = torch.Size(shape).numel()
        self.memories.append(torch.full((WALL + size + WALL,), 7.0, **options))
        return self.memories[-1][WALL : WALL + size].view(shape).fill_(torch.nan)

    def empty_like(self, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        return self.empty(*like.shape, dtype=dtype or like.dtype, device=like.device)


@pytest.fixture
def walls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Results of the kernels lie between walls."""
    walled = Walled()
    monkeypatch.setattr(noise_embedding, "torch", walled)
    yield
    assert len(walled.memories) == 4
    assert all((memory[:WALL] == 7).all() and (memory[-WALL:] == 7).all() for memory in walled.memories)


@pytest.mark.parametrize(("n", "width", "frequencies"), CASES)
def test_outputs_and_gradients_are_those_of_float64_and_nothing_else_is_touched(
    walls: None, n: int, width: int, frequencies: int
) -> None:
    """Rows, widths and frequencies that fill no whole tile."""
    compare(Alone(frequencies, width).to(DEVICE), labels(n), 1e-5)


def test_half_precision_differs_by_the_rounding_of_the_condition_and_its_gradient() -> None:
    compare(Alone(10, 20).to(DEVICE), labels(19), 6e-3, torch.bfloat16)  # the interpreter cuts off


def test_products_are_as_exact_as_those_of_torch() -> None:
    torch.set_float32_matmul_precision("high")
    network = Alone(10, 64).to(DEVICE)
    compare(network, labels(37), 1e-3)
    true, found = textbook(network, labels(37))[0], fused(network, labels(37))[0]
    assert abs(float((found.double() * true).sum() / true.square().sum()) - 1) < 1e-4  # rounded, and not cut off


def test_a_nan_stays_one_whatever_its_bits() -> None:
    """All bits below the sign set is the NaN of NVIDIA's GPUs; rounding it up would give a zero."""
    torch.set_float32_matmul_precision("high")
    network = Alone(10, 20).to(DEVICE)
    bits = torch.tensor([0x7FFFFFFF], dtype=torch.int32, device=DEVICE)
    with torch.no_grad():
        network.embedding.layers[2].weight[:] = bits.view(torch.float32)
    assert fused(network, labels(5))[0].isnan().all()


def test_rows_that_share_a_label_have_one_condition_with_the_gradient_of_all() -> None:
    network, label = Alone(10, 20).to(DEVICE), torch.full((), 0.6, device=DEVICE).expand(5)
    assert len(fused(network, label)[0]) == 1
    compare(network, label, 1e-5)


def test_labels_may_lie_apart_in_memory() -> None:
    network, label = Alone(10, 20).to(DEVICE), labels(22)[::3]
    assert not label.is_contiguous()
    compare(network, label, 1e-5)


def test_a_sampler_gets_the_condition_without_a_graph() -> None:
    network = Alone(10, 20).to(DEVICE)
    with torch.no_grad():
        found = operations_of(network, torch.float32).noise_condition(labels(3), network.embedding)
    assert not found.requires_grad and error(found, textbook(network, labels(3))[0]) < 1e-5


def test_a_label_with_a_gradient_is_left_to_the_textbook() -> None:
    network, found = Alone(10, 20).to(DEVICE), []
    for dtype in (torch.float32, torch.float64):
        label = labels(6).to(dtype).requires_grad_()
        if dtype == torch.float64:
            condition = functional.silu(network.double().embedding(label))
        else:
            condition = TritonOperations(network, dtype).noise_condition(label, network.embedding)
        slopes_of(condition, network.parameters(), len(label))
        assert label.grad is not None
        found.append(label.grad)
    assert error(*found) < 1e-4


def test_the_cpu_computes_what_the_textbook_computes() -> None:
    embedding, label = Alone(10, 20).embedding, labels(7).cpu()
    found = CpuOperations().noise_condition(label, embedding)
    assert torch.equal(found, functional.silu(embedding(label)))
