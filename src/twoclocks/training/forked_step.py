"""One update on the CPU, the batch divided among this process and copies of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from twoclocks.models.base import Network
from twoclocks.training.step import PlainStep, finish_gradients, trained
from twoclocks.training.workers import Gradients, Result, Workers, obstacle, share

PATIENCE = 60.0, 20.0  # seconds, and times what the own part took, after which a copy counts as stuck

log = logging.getLogger("twoclocks")


def divisible(network: Network) -> bool:
    """Whether copies of this process may compute parts of a batch for the network."""
    return bool(vars(type(network)).get("divisible")) and not obstacle()


@dataclass(eq=False)
class ForkedStep(PlainStep):
    """The update of ``PlainStep``, up to rounding, which depends on the number of processes.

    If a copy fails, its part of this step and of all later ones is computed here, with the same result.
    """

    processes: int = field(kw_only=True)
    workers: Workers | None = field(default=None, init=False)  # made when first needed: they are copies of that moment
    is_alone: bool = field(default=False, init=False)  # since a copy has failed
    parameters: list[nn.Parameter] = field(default_factory=list, init=False)  # that are trained, as of this step

    def begin(self, number: int, prepare: Callable[[int], None]) -> None:
        """Let the others compute their parts of a step; ``prepare`` is what has to come before each step."""
        self.number, self.prepare = number, prepare
        self.parameters = trained(self.network)
        if self.is_alone:
            return
        places = [parameter.data_ptr() for parameter in self.parameters]
        if self.workers is None or not self.workers.ready or places != self.places:
            self.copy_process()
        assert self.workers is not None
        self.workers.begin(number)

    def copy_process(self) -> None:
        """Make copies of this process as it is now."""
        if self.workers is not None:
            self.workers.close()
        share(self.parameters)
        self.places = [parameter.data_ptr() for parameter in self.parameters]
        self.workers = Workers(self.processes - 1, self.parameters, self.work)

    def work(self, step: int, part: int) -> Result:
        """What a copy does: the loss of its part, and the gradients of all that is trained."""
        self.network.train()  # whatever it was when it was copied
        self.prepare(step)
        loss = float(self.part(part))
        return loss, [parameter.grad for parameter in self.parameters]

    def __call__(self) -> None:
        start = time.perf_counter()
        loss = self.part(0).to(torch.float64, copy=True)  # a recording writes there again
        took = time.perf_counter() - start
        for place, result in enumerate(self.results(PATIENCE[0] + PATIENCE[1] * took), 1):
            other, gradients = result if result is not None else self.computed_here(place)
            add_gradients(self.parameters, gradients)
            loss += other
        self.update()
        self.loss_sum += loss

    def results(self, seconds: float) -> list[Result | None]:
        """The results of the other parts; None: to be computed here."""
        if self.workers is None:
            return [None] * (self.processes - 1)
        found = self.workers.results(seconds)
        if self.workers.failure:
            log.warning(
                f"training.threads: a process that computed a part of each batch failed ({self.workers.failure}); "
                "this one goes on without it, more slowly"
            )
            self.workers, self.is_alone = None, True
        return found

    def computed_here(self, place: int) -> Result:
        """The result of another part; the gradients of this process stay as they are."""
        own = [None if one.grad is None else one.grad.clone() for one in self.parameters]  # a recording writes there
        found = self.work(self.number, place)
        for parameter, gradient in zip(self.parameters, own, strict=True):
            parameter.grad = gradient
        return found

    def part(self, place: int) -> Tensor:
        """The share of some rows in the loss of the batch; its gradient is left in the network."""
        clean = self.shown.batch(self.order.rows(), self.generator)
        drawn = self.objective.draw(clean, self.generator)
        mine, *given = (tensor.tensor_split(self.processes)[place] for tensor in (clean, *drawn))
        self.optimizer.zero_grad(set_to_none=True)
        if len(mine) and self.gradient is not None:
            return self.gradient(len(clean), mine, *given)
        if not len(mine):
            return torch.zeros(())
        loss = self.objective.loss_given(self.network, mine, *given).sum() / len(clean)
        loss.backward()
        finish_gradients(self.network)
        return loss.detach()


def add_gradients(parameters: Sequence[nn.Parameter], gradients: Gradients) -> None:
    """Add to the gradients of all that is trained; None: a part of the batch had nothing to do with it."""
    found = [(one, more) for one, more in zip(parameters, gradients, strict=True) if more is not None]
    both = [(one.grad, more) for one, more in found if one.grad is not None]
    if both:
        torch._foreach_add_([mine for mine, _ in both], [more for _, more in both])
    for parameter, more in found:
        if parameter.grad is None:
            parameter.grad = more.clone()
