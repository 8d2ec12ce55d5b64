"""The loss and its gradients from a recording: when one is made, when it must not be used, and how it is checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from twoclocks.models.base import Network
from twoclocks.training.masked_loss import MaskedLoss
from twoclocks.training.network_state import NetworkState
from twoclocks.training.noise_curriculum import NoiseCurriculum
from twoclocks.training.recording import Recording
from twoclocks.training.repeatable import NotRecordableError
from twoclocks.training.step import TrainingLoss, finish_gradients, trained

Found = tuple[Tensor, list[Tensor | None]]  # a loss, and the gradient of each parameter
CHECKS = 3  # repetitions of a recording that are compared with the computation itself
MOST_KINDS = 8  # of inputs, such as sizes of batches, that have a recording: each takes memory
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

log = logging.getLogger("twoclocks")


def recordable(network: Network, objective: TrainingLoss) -> bool:
    """Whether both say of themselves that they make the same operations for every batch."""
    while isinstance(objective, MaskedLoss | NoiseCurriculum):
        objective = objective.objective
    return all(vars(type(one)).get("recordable") is True for one in (network, objective))


class RecordedGradient:
    """A loss of some rows under what was drawn for them; its gradient is left in the network until the next call.

    Rows of a new shape are computed by autograd. The second time their operations are recorded, and repeated from
    then on, with the same result to the last bit. The first repetitions are compared with the computation itself; if
    they differ, it is used from then on.
    """

    def __init__(self, network: Network, loss: Callable[..., Tensor]) -> None:
        """``loss(size, rows, *drawn)`` is the part of these rows in the loss of a batch of ``size`` samples."""
        self.network, self.loss = network, loss
        self.recordings: dict[Hashable, CheckedRecording | None] = {}  # by kind of inputs; None: seen once
        self.state: NetworkState | None = None  # when they were made
        self.objection = ""  # why nothing is recorded any more
        self.parameters: list[nn.Parameter] = []  # that are trained, as of this call

    def __call__(self, size: int, rows: Tensor, *drawn: Tensor) -> Tensor:
        self.parameters = trained(self.network)
        found = None if self.objection else self.repeated(size, rows, *drawn)
        if found is None:
            return self.compute(size, rows, *drawn)[0]
        for parameter, gradient in zip(self.parameters, found[1], strict=True):
            # Another tensor in the same memory, so that nobody can turn the recording's own to other memory.
            parameter.grad = None if gradient is None else gradient.detach()
        return found[0]

    def repeated(self, size: int, *inputs: Tensor) -> Found | None:
        """As ``compute``, from a recording; None: there is none, or it cannot be had."""
        try:
            recording = self.recording(size, *inputs)
            return None if recording is None else recording(*inputs)
        except Exception as error:  # of the computation itself: it is raised again when it is computed
            self.refuse(f"{type(error).__name__}: {error}")
            return None

    def recording(self, size: int, *inputs: Tensor) -> CheckedRecording | None:
        """Of inputs of this kind, made when they are seen for the second time."""
        if self.state is None or self.state.has_changed():
            self.recordings, self.state = {}, NetworkState(self.network)
        if self.state.is_watched():
            return None
        kind = size, tuple((one.shape, one.stride(), one.dtype) for one in inputs)
        if kind not in self.recordings:
            if len(self.recordings) < MOST_KINDS:
                self.recordings[kind] = None
            return None
        found = self.recordings[kind] or CheckedRecording(partial(self.compute, size), inputs)
        self.recordings[kind] = found
        return found

    def refuse(self, reason: str) -> None:
        """Record nothing any more."""
        self.objection, self.recordings = reason, {}
        log.debug(f"training.capture: a step of {type(self.network).__name__} is not recorded ({reason})")

    def compute(self, size: int, rows: Tensor, *drawn: Tensor) -> Found:
        """By autograd; the gradient is left in the network too."""
        self.network.zero_grad(set_to_none=True)
        loss = self.loss(size, rows, *drawn)
        loss.backward()
        finish_gradients(self.network)
        return loss.detach(), [parameter.grad for parameter in self.parameters]


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
    """Equal bits, or NaN, in all entries; or nothing twice."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bits = INTEGERS[one.dtype.itemsize]
    equal = one.contiguous().view(bits) == other.contiguous().view(bits)
    return bool((equal | (one.isnan() & other.isnan())).all())
