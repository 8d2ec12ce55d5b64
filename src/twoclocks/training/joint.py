"""Updates of several runs made together: each run's own, side by side on a GPU; or one batched computation for all.

A small network cannot fill a GPU: most of a step is the start of kernels. There are two remedies.

Side by side (``InTurn`` with streams): each run replays its own captured step in a CUDA stream of its own, so kernels
of different runs are computed at the same time. Every run computes what it computes alone.

Batched (``Batched``): runs that differ in seeds, data or rates alone compute the same operations on different numbers.
So their weights are stacked along a new first axis, and each operation works on all of them at once (``torch.vmap``).
Everything else stays the run's own: stream of random numbers, batch, optimizer, average, sum of losses. Its parameters
are views into the stack, so whoever evaluates or stores the run need not know.

On the CPU each run makes its own step, one after another.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from twoclocks.kernels.registry import MixedForm
from twoclocks.models.base import Network
from twoclocks.training.capture import Captured
from twoclocks.training.step import WARM_UP, PlainStep, Step, trimmed_mean, undone
from twoclocks.training.streams import Streams

Due = Mapping[int, int]  # which runs make an update, by their place, and the number of the update
Failures = dict[int, Exception]  # runs that could not make their update, and why
Tensors = dict[str, Tensor]
TOLERANCE, TOLERANCE_16_BITS = 1e-3, 3e-2  # of losses that are computed together and alone


class InTurn:
    """Each run's own step, asked for one after another; a GPU computes those of different streams at the same time."""

    def __init__(self, steps: Sequence[Step], streams: Streams) -> None:
        self.steps, self.streams = steps, streams

    def __call__(self, due: Due) -> Failures:
        failures: Failures = {}
        for place, number in due.items():
            try:
                with self.streams.of(place):
                    self.steps[place](number)
            except Exception as error:  # of this run alone
                failures[place] = error
        return failures


class Stack:
    """The weights and buffers of networks of one architecture as tensors (runs, …), of which theirs become views.

    Whatever refers to the memory of their weights from before, such as a CUDA graph, must be forgotten.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        textbook = all(one.fused is None or isinstance(one.fused, MixedForm) for one in networks)
        assert textbook, "fused operations have no axis of runs: build the experiments with textbook=True"
        self.networks = networks
        self.weights = stacked([dict(network.named_parameters()) for network in networks])
        self.buffers = stacked([dict(network.named_buffers()) for network in networks])
        for name, weight in self.weights.items():
            weight.requires_grad_(networks[0].get_parameter(name).requires_grad)
        self.version = 0  # counts the updates of the weights

    @cached_property
    def trained(self) -> Network:
        """The architecture without weights, as it trains; made when ``begin_step`` was called on the networks."""
        return copy.deepcopy(self.networks[0]).to("meta").train()

    @cached_property
    def sampled(self) -> Network:
        """The architecture without weights, as it is sampled."""
        return copy.deepcopy(self.networks[0]).to("meta").eval()

    def map(self, work: Callable[..., Tensor], architecture: Network, *inputs: Tensor) -> Tensor:
        """``work(network, *inputs)`` for each run, with its weights and its part of the inputs, in one computation."""

        def one(weights: Tensors, buffers: Tensors, *given: Tensor) -> Tensor:
            def network(*args: Any, **named: Any) -> Tensor:
                out: Tensor = functional_call(architecture, (weights, buffers), args, named)
                return out

            return work(network, *given)

        # The one form of attention whose operations all work on a further axis of their inputs.
        with sdpa_kernel(SDPBackend.MATH):
            out: Tensor = torch.vmap(one)(self.weights, self.buffers, *inputs)
        return out

    def take_gradients(self) -> None:
        """Give each network its part of the gradients; what has none keeps none."""
        for place, network in enumerate(self.networks):
            for name, parameter in network.named_parameters():
                whole = self.weights[name].grad
                parameter.grad = None if whole is None else whole[place]


def stacked(named: Sequence[Mapping[str, Tensor]]) -> Tensors:
    """Tensors of each name stacked along a new first axis; each of them becomes a view of its part."""
    found = {name: torch.stack([one[name].detach() for one in named]) for name in named[0]}
    for name, whole in found.items():
        for part, one in zip(whole, named, strict=True):
            one[name].data = part
    return found


class Batched:
    """One update of all runs, in which every operation on weights works on all of them at once.

    The runs must differ in seeds, data and rates alone; they need not stand at the same step. A run that is not due
    any more is computed all the same, since a CUDA graph always does the same work: whoever ended it has stored it.
    """

    def __init__(self, steps: Sequence[Step], stack: Stack, captures: bool = False) -> None:
        self.steps, self.stack, self.captures = steps, stack, captures
        self.plain = [plain_part(step) for step in steps]
        self.update: Callable[[], None] | None = None

    def __call__(self, due: Due) -> Failures:
        try:
            self.make_update(due)
        except Exception as error:
            return dict.fromkeys(due, error)
        return {}

    def make_update(self, due: Due) -> None:
        """One update of all runs; those that are due draw their random numbers from their own streams."""
        if self.update is None:
            self.update = self.captured() if self.captures else self.all_updates
        for place, number in due.items():  # the capture drew random numbers
            self.steps[place].begin(number)
        self.update()
        self.stack.version += 1

    def objection(self) -> str:
        """Why a batched update would not be that of each run; empty if it is, on the batches of two steps.

        A network that somebody registered may keep more than parameters and buffers, or draw random numbers itself.
        Weights and buffers are left as they are.
        """
        tolerance = TOLERANCE if all(one.network.fused is None for one in self.plain) else TOLERANCE_16_BITS
        buffers = {name: value.clone() for name, value in self.stack.buffers.items()}
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                for number in (1, 2):
                    together, alone = self.losses_both_ways(number)
                    if not torch.allclose(together, alone, rtol=tolerance, atol=tolerance, equal_nan=True):
                        worst = int((together - alone).abs().argmax())
                        return f"its loss is {together[worst]:.4g} together and {alone[worst]:.4g} alone"
                with torch.enable_grad():  # some operations have no batched gradient
                    self.losses(*self.draw()).sum().backward()
        except RuntimeError as error:
            return str(error).strip().split("\n")[0]
        finally:
            for weight in self.stack.weights.values():
                weight.grad = None
            with torch.no_grad():
                for name, value in self.stack.buffers.items():
                    value.copy_(buffers[name])
        return ""

    def losses_both_ways(self, number: int) -> tuple[Tensor, Tensor]:
        """The losses (runs,) of a step in one computation, and of each network by itself."""
        for step in self.steps:
            step.begin(number)
        clean, drawn = self.draw()
        pairs = zip(self.plain, clean, drawn, strict=True)
        alone = [trimmed_mean(one.objective.loss_given(one.network, rows, *d), one.trim) for one, rows, d in pairs]
        return self.losses(clean, drawn), torch.stack(alone)

    def draw(self) -> tuple[list[Tensor], list[tuple[Tensor, ...]]]:
        """The batch of each run, and what its objective draws, from its own stream."""
        clean = [one.shown.batch(one.order.rows(), one.generator) for one in self.plain]
        return clean, [one.objective.draw(rows, one.generator) for one, rows in zip(self.plain, clean, strict=True)]

    def losses(self, clean: Sequence[Tensor], drawn: Sequence[tuple[Tensor, ...]]) -> Tensor:
        """The loss of each run (runs,) in one computation."""
        given = [torch.stack(list(same)) for same in (clean, *zip(*drawn, strict=True))]
        return self.stack.map(self.loss, self.stack.trained, *given)

    def captured(self) -> Callable[[], None]:
        """The update as one CUDA graph; weights, moments and sums of losses are left as they are."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), ExitStack() as stack:
            for one in self.plain:
                stack.enter_context(undone(one))
            for _ in range(WARM_UP):
                self.all_updates()
        torch.cuda.current_stream().wait_stream(side)
        return Captured(self.all_updates, [one.generator for one in self.plain])

    def all_updates(self) -> None:
        """Draw for each run from its own stream, take all gradients at once, update each run."""
        clean, drawn = self.draw()
        for weight in self.stack.weights.values():
            weight.grad = None
        losses = self.losses(clean, drawn)
        losses.sum().backward()
        self.stack.take_gradients()
        for one, loss in zip(self.plain, losses.detach(), strict=True):
            one.update()
            one.loss_sum += loss

    def loss(self, network: Callable[..., Tensor], clean: Tensor, *drawn: Tensor) -> Tensor:
        """The loss that one run's step minimises."""
        first = self.plain[0]  # all have the same objective
        return trimmed_mean(first.objective.loss_given(network, clean, *drawn), first.trim)


def plain_part(step: Step) -> PlainStep:
    """The update of a step that was made without a CUDA graph, in one process."""
    assert type(step.update) is PlainStep, "make the step with captures=False, in one process"
    return step.update
