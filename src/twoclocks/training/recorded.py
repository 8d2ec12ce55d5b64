"""The loss and its gradients from a recording: when one is made, when it must not be used, and how it is checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from twoclocks.models.base import Network
from twoclocks.training.masked_loss import MaskedLoss
from twoclocks.training.noise_curriculum import NoiseCurriculum
from twoclocks.training.recording import NotRecordableError, Recording
from twoclocks.training.step import TrainingLoss, trained

Found = tuple[Tensor, list[Tensor | None]]  # a loss, and the gradient of each parameter
CHECKS = 3  # repetitions of a recording that are compared with the computation itself

log = logging.getLogger("twoclocks")


def recordable(network: Network, objective: TrainingLoss) -> bool:
    """Whether both say of themselves that they make the same operations for every batch."""
    while isinstance(objective, MaskedLoss | NoiseCurriculum):
        objective = objective.objective
    return all(vars(type(one)).get("recordable") is True for one in (network, objective))


class RecordedGradient:
    """A loss of some rows under what was drawn for them; its gradient is left in the network.

    The operations are recorded for the first rows of a shape, and repeated for later ones, with the same result to the
    last bit. The first repetitions are compared with the computation itself; if they differ, it is used from then on.
    """

    def __init__(self, network: Network, loss: Callable[..., Tensor]) -> None:
        """``loss(size, rows, *drawn)`` is the part of these rows in the loss of a batch of ``size`` samples."""
        self.network, self.loss = network, loss
        self.recordings: dict[Hashable, CheckedRecording] = {}  # by the size and the shapes of the inputs
        self.state: Hashable = None  # of the network when they were made
        self.objection = ""  # why nothing is recorded any more
        self.parameters: list[nn.Parameter] = []  # that are trained, as of this call

    def __call__(self, size: int, rows: Tensor, *drawn: Tensor) -> Tensor:
        self.parameters = trained(self.network)
        loss, gradients = (self.compute if self.objection else self.repeat)(size, rows, *drawn)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        return loss

    def repeat(self, size: int, *inputs: Tensor) -> Found:
        """As ``compute``, from a recording."""
        if (state := state_of(self.network, self.parameters)) is None:
            return self.compute(size, *inputs)
        if state != self.state:
            self.recordings, self.state = {}, state
        kind = size, tuple((one.shape, one.stride(), one.dtype) for one in inputs)
        try:
            if kind not in self.recordings:
                self.recordings[kind] = CheckedRecording(partial(self.compute, size), inputs)
            return self.recordings[kind](*inputs)
        except NotRecordableError as error:
            self.objection = str(error)
            log.debug(f"training.capture: a step of {type(self.network).__name__} is not recorded ({error})")
            return self.compute(size, *inputs)

    def compute(self, size: int, rows: Tensor, *drawn: Tensor) -> Found:
        """By autograd; gradients lie in memory as their parameters do, which optimizers expect."""
        loss = self.loss(size, rows, *drawn)
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return loss.detach(), [like(gradient, one) for gradient, one in zip(found, self.parameters, strict=True)]


class CheckedRecording:
    """A computation on inputs of fixed shapes, repeated from a recording; the first times it is compared."""

    def __init__(self, compute: Callable[..., Found], inputs: Sequence[Tensor]) -> None:
        self.compute, self.inputs = compute, [one.clone(memory_format=torch.preserve_format) for one in inputs]
        self.recording = Recording(lambda: compute(*self.inputs))
        self.unchecked = CHECKS

    def __call__(self, *inputs: Tensor) -> Found:
        for mine, given in zip(self.inputs, inputs, strict=True):
            mine.copy_(given)
        found = self.recording()
        if self.unchecked:
            self.unchecked -= 1
            self.check(found, self.compute(*inputs))
        return found

    def check(self, found: Found, expected: Found) -> None:
        """Raise NotRecordableError unless both are the same to the last bit; two NaN count as the same."""
        pairs = zip([found[0], *found[1]], [expected[0], *expected[1]], strict=True)
        if not all(same(mine, other) for mine, other in pairs):
            raise NotRecordableError("its repeated operations have another result")


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Equal numbers, and NaN at the same places; or nothing twice."""
    if one is None or other is None:
        return one is other
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def like(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """The gradient with the strides of its parameter."""
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def state_of(network: Network, parameters: Sequence[nn.Parameter]) -> Hashable | None:
    """What a recording depends on besides its inputs: layers, modes, and where weights and buffers lie.

    None: somebody wants to be called in every pass, by hooks, which a recording would not do.
    """
    if torch.is_anomaly_enabled() or any(one._backward_hooks for one in parameters):
        return None
    state: list[Hashable] = [id(network.fused), torch.get_num_threads(), torch.is_autocast_enabled("cpu")]
    for one in network.modules():
        if one._forward_hooks or one._forward_pre_hooks or one._backward_hooks or one._backward_pre_hooks:
            return None
        state += [id(one), one.training]
        state += [buffer.data_ptr() for buffer in one._buffers.values() if buffer is not None]
        state += [None if weight is None else weight.data_ptr() for weight in one._parameters.values()]
    return (*state, *map(id, parameters))
