"""One update of the weights: as a plain function, and on the GPU as one CUDA graph that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from twoclocks.core.seeds import derive
from twoclocks.data.shown import Shown
from twoclocks.models.base import Network
from twoclocks.objectives.base import Network as Callee
from twoclocks.training.average import Average
from twoclocks.training.capture import Captured
from twoclocks.training.order import Order

Update = Callable[[], None]
WARM_UP = 2  # updates before the capture: kernels are compiled and moments made in the first


class Gradient(Protocol):
    def __call__(self, size: int, rows: Tensor, *drawn: Tensor) -> Tensor:
        """The part of these rows in the loss of a batch of ``size``; its gradient is left in the network."""


class TrainingLoss(Protocol):
    """What training minimises: an objective, or a wrapper that changes its loss in training alone."""

    def draw(self, clean: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """All randomness of the loss, row by row."""

    def loss(self, network: Callee, clean: Tensor, generator: torch.Generator) -> Tensor:
        """Loss (n,) of each sample."""

    def loss_given(self, network: Callee, clean: Tensor, *drawn: Tensor) -> Tensor:
        """Loss (n,) of each sample with the randomness that was drawn."""


@dataclass(eq=False)
class PlainStep:
    """Take rows, corrupt them, take the gradient of the mean loss, update; the loss is added to ``loss_sum``.

    ``average`` follows the weights and has no part in the update. ``trim``: the share of the samples, those with the
    lowest loss, that have no part in it either.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    objective: TrainingLoss
    shown: Shown
    order: Order
    generator: torch.Generator
    loss_sum: Tensor
    average: Average | None = None
    trim: float = 0.0
    gradient: Gradient | None = None  # a faster way to it than autograd's

    def __call__(self) -> None:
        clean = self.shown.batch(self.order.rows(), self.generator)
        loss = self.backward(clean)
        self.update()
        self.loss_sum += loss

    def backward(self, clean: Tensor) -> Tensor:
        """The loss of a batch; its gradient is left in the network. An update must follow: it may have begun."""
        self.optimizer.zero_grad(set_to_none=True)  # of what is not trained any more, too
        if self.gradient is not None:
            return self.gradient(len(clean), clean, *self.objective.draw(clean, self.generator))
        loss = trimmed_mean(self.objective.loss(self.network, clean, self.generator), self.trim)
        with updates_early(self.optimizer):
            loss.backward()
            finish_gradients(self.network)
        return loss.detach()

    def update(self) -> None:
        """Change the weights by their gradients."""
        self.optimizer.step()
        if self.average is not None:
            self.average.update()


@dataclass(frozen=True)
class Step:
    """Step 1, 2, … of a run: its random numbers depend on (seed, step) alone."""

    update: Update
    begins: Sequence[Callable[[int], None]]  # what has to be prepared outside of a CUDA graph, by number of the step
    generator: torch.Generator
    seed: int

    def __call__(self, number: int) -> None:
        self.begin(number)
        self.update()

    def begin(self, number: int) -> None:
        """Seed the random numbers of this step, and prepare what is prepared outside of a CUDA graph."""
        self.generator.manual_seed(derive(self.seed, "training step", number))
        for begin in self.begins:
            begin(number)


def trimmed_mean(losses: Tensor, trim: float) -> Tensor:
    """Mean of the losses (n,) without the given share of them that is lowest; at least one is left.

    >>> trimmed_mean(torch.tensor([4.0, 1.0, 2.0, 6.0]), 0.25)
    tensor(4.)
    """
    left = max(1, len(losses) - int(trim * len(losses)))
    return losses.mean() if left == len(losses) else losses.topk(left).values.mean()


def trained(network: Network) -> list[nn.Parameter]:
    """The parameters that updates change."""
    return [parameter for parameter in network.parameters() if parameter.requires_grad]


@runtime_checkable
class EarlyOptimizer(Protocol):
    """An optimizer whose updates can begin before the backward pass ends."""

    def during_backward(self) -> AbstractContextManager[None]:
        """Inside, the backward pass may change weights whose gradients are complete; ``step`` changes the rest."""


def updates_early(optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
    """For the backward pass that an update follows."""
    return optimizer.during_backward() if isinstance(optimizer, EarlyOptimizer) else nullcontext()


def finish_gradients(network: Network) -> None:
    """Complete the gradients of a backward pass; a fused form may still be writing them."""
    if network.fused is not None:
        network.fused.finish_gradients()


def captured(step: PlainStep) -> Update:
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
