"""One update of the weights: as a plain function, and on the GPU as one CUDA graph that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from twoclocks.models.base import Network
from twoclocks.objectives.base import Objective
from twoclocks.training.average import Average
from twoclocks.training.capture import Captured
from twoclocks.training.thread_pool import ThreadPool, replicas

Step = Callable[[], None]
WARM_UP = 2  # updates before the capture: kernels are compiled and moments made in the first


@dataclass(eq=False)
class PlainStep:
    """Draw rows, corrupt them, take the gradient of the mean loss, update; the loss is added to ``loss_sum``.

    ``average`` follows the weights and has no part in the update.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    objective: Objective
    data: Tensor
    batch: int
    generator: torch.Generator
    loss_sum: Tensor
    distinct: bool = False
    average: Average | None = None

    def draw_rows(self) -> Tensor:
        """Which rows this step sees (batch,)."""
        if self.distinct:  # the first of a random order, found by sorting: a CUDA graph cannot hold randperm
            order = torch.rand(len(self.data), generator=self.generator, device=self.data.device).argsort()
            return order[: self.batch]
        return torch.randint(len(self.data), (self.batch,), generator=self.generator, device=self.data.device)

    def __call__(self) -> None:
        loss = self.objective.loss(self.network, self.data[self.draw_rows()], self.generator).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        finish_gradients(self.network)
        self.update()
        self.loss_sum += loss.detach()

    def update(self) -> None:
        """Change the weights by their gradients."""
        self.optimizer.step()
        if self.average is not None:
            self.average.update()


@dataclass(eq=False)
class SharedStep(PlainStep):
    """The same update on the CPU, the batch divided among the threads of a pool."""

    pool: ThreadPool = field(kw_only=True)

    def __post_init__(self) -> None:
        self.networks = replicas(self.network, self.pool.size)

    def __call__(self) -> None:
        clean = self.data[self.draw_rows()]
        parts = self.pool.parts(clean, *self.objective.draw(clean, self.generator))
        losses = self.pool.map(self.part, list(zip(self.networks, parts, strict=False)))
        first, *others = (gradients_of(one) for one in self.networks[: len(parts)])
        for gradients in others:
            torch._foreach_add_(first, gradients)
        self.update()
        self.loss_sum += torch.stack(losses).sum()

    def part(self, given: tuple[Network, tuple[Tensor, ...]]) -> Tensor:
        """The share of some rows in the loss; its gradient is left in a replica."""
        network, (clean, *drawn) = given
        network.zero_grad(set_to_none=True)
        loss = self.objective.loss_given(network, clean, *drawn).sum() / self.batch
        loss.backward()
        finish_gradients(network)
        return loss.detach()


def finish_gradients(network: Network) -> None:
    """Complete the gradients of a backward pass; a fused form may still be writing them."""
    if network.fused is not None:
        network.fused.finish_gradients()


def gradients_of(network: Network) -> list[Tensor]:
    return [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


def captured(step: PlainStep) -> Step:
    """The step as one CUDA graph; weights, their average, moments and the sum of losses are left as they are."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), undone(step):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    return Captured(step, [step.generator])


@contextmanager
def undone(step: PlainStep) -> Iterator[None]:
    """What is trained inside is forgotten; moments that the optimizer made meanwhile stay, as zeros."""
    optimizer, network = step.optimizer, step.network
    weights = [parameter.detach().clone() for parameter in network.parameters()]
    moments = {id(value): value.clone() for value in tensors_of(optimizer)}
    averaged = [] if step.average is None else step.average.memory()
    averaged_before = [value.clone() for value in averaged]
    loss_sum, stream = step.loss_sum.clone(), step.generator.get_state()
    yield
    with torch.no_grad():
        for parameter, before in zip(network.parameters(), weights, strict=True):
            parameter.copy_(before)
        for value in tensors_of(optimizer):
            value.copy_(moments.get(id(value), torch.zeros_like(value)))
        for value, before in zip(averaged, averaged_before, strict=True):
            value.copy_(before)
        step.loss_sum.copy_(loss_sum)
    step.generator.set_state(stream)
    optimizer.zero_grad(set_to_none=True)
    if network.fused is not None:
        network.fused.weights_changed()


def tensors_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
