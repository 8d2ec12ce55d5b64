"""All parameters of a network in one piece of memory, with their gradients and bfloat16 shadows beside them.

So the optimizer is one kernel in one pass, products read the shadows, and layers that share their input are one matrix.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

Rate = float | Tensor  # a learning rate; a tensor can change within a CUDA graph
ALIGNMENT = 64  # entries: the GPU's TMA, which copies tiles, wants rows that begin at whole 16 bytes


@runtime_checkable
class FlatForm(Protocol):
    """A fused form that keeps its network's parameters in one piece of memory."""

    @property
    def flat(self) -> Flat: ...


class Flat:
    """``values`` and ``gradients`` (float32) and ``shadows`` of all parameters, which become views of ``values``.

    ``stacks`` are layers whose weights, and whose biases, are to lie one behind the other. So do gains and biases of
    all normalisations.
    """

    def __init__(self, network: nn.Module, dtype: torch.dtype, stacks: Sequence[Sequence[nn.Linear]] = ()) -> None:
        self.parameters = list(network.parameters())  # in the network's order
        groups = [[getattr(layer, name) for layer in stack] for stack in stacks for name in ("weight", "bias")]
        stacked = {parameter for group in groups for parameter in group}
        norms = [p for module in network.modules() if isinstance(module, nn.LayerNorm) for p in module.parameters()]
        groups += [[parameter] for parameter in self.parameters if parameter not in {*stacked, *norms}]
        groups.append(norms)
        sizes = [sum(parameter.numel() for parameter in group) for group in groups]
        starts = [0, *itertools.accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]
        self.groups, self.starts = groups, starts  # and the end of all
        self.places: dict[Tensor, tuple[int, int]] = {}
        for start, group in zip(starts, groups, strict=False):
            for parameter in group:
                self.places[parameter] = (start, start + parameter.numel())
                start += parameter.numel()
        device = next(network.parameters()).device
        self.values = torch.zeros(starts[-1], device=device)
        self.gradients = torch.zeros_like(self.values)
        self.shadows = torch.zeros_like(self.values, dtype=dtype)
        self.unread = torch.empty_like(self.shadows)  # where shadows go while the old ones are still to be read
        with torch.no_grad():
            for parameter in self.places:
                self.view(self.values, parameter).copy_(parameter)
                parameter.data = self.view(self.values, parameter)
        self.slots = {parameter: self.view(self.gradients, parameter) for parameter in self.places}
        self.written: set[Tensor] = set()  # since the last ``gather``
        self.early_update: Callable[[int, int, bool], None] | None = None  # of a part whose gradients are complete
        self.refresh()

    def view(self, memory: Tensor, parameter: Tensor) -> Tensor:
        """The parameter's part of one of the memories."""
        start, end = self.places[parameter]
        return memory[start:end].view(parameter.shape)

    def stacked(self, memory: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """The parts of parameters that lie one behind the other, as one tensor."""
        start, end = self.places[parameters[0]][0], self.places[parameters[-1]][1]
        return memory[start:end].view(-1, *parameters[0].shape[1:])

    def update_early(self, parameters: Sequence[Tensor], shadows: bool = True) -> None:
        """Change parameters that lie one behind the other, if the optimizer offers it during this backward pass.

        Their gradients must be complete. Nothing may read their shadows any more, or these stay as they are until
        ``refresh``.
        """
        if self.early_update is None:
            return
        begin, end = self.places[parameters[0]][0], self.places[parameters[-1]][1]
        between = [id(one) for one, (start, _) in self.places.items() if begin <= start < end]
        if between != [id(one) for one in parameters]:  # the others between them may have no gradient yet
            return
        last = bisect_right(self.starts, self.places[parameters[-1]][0]) - 1
        if parameters[-1] is self.groups[last][-1]:
            end = self.starts[last + 1]  # with the gap behind the group
        self.early_update(begin, end, shadows)

    def refresh(self, parameters: Sequence[Tensor] = ()) -> None:
        """Renew the shadows from the values; of all parameters, or of some that lie one behind the other."""
        begin, end = (self.places[parameters[0]][0], self.places[parameters[-1]][1]) if parameters else (0, None)
        self.shadows[begin:end].copy_(self.values[begin:end])

    def slot(self, parameter: Tensor) -> Tensor:
        """Where the parameter's gradient is to be written, which may happen once per step."""
        assert parameter not in self.written, "a weight was used twice in one step; use kernels: plain for this model"
        self.written.add(parameter)
        return self.slots[parameter]

    def gather(self) -> None:
        """Copy gradients that were made elsewhere to their place; every parameter's gradient lies there afterwards.

        What has no gradient in this step has zero, not the one of the step before.
        """
        self.check()
        elsewhere = [(slot, p.grad) for p, slot in self.slots.items() if p.grad is not None]
        if elsewhere:
            torch._foreach_copy_([slot for slot, _ in elsewhere], [gradient for _, gradient in elsewhere])
        for parameter, slot in self.slots.items():
            if parameter.grad is None and parameter not in self.written:
                slot.zero_()
            parameter.grad = slot
        self.written.clear()

    def check(self) -> None:
        """Refuse what would be computed wrongly without an error."""
        fix = "use kernels: plain for this model"
        if not all(parameter.requires_grad for parameter in self.places):
            raise ValueError(f"a weight is frozen (requires_grad is False), and would be trained all the same; {fix}")
        for parameter, slot in self.slots.items():
            gradient = parameter.grad
            if gradient is not None and parameter in self.written and gradient.data_ptr() != slot.data_ptr():
                raise ValueError(f"a weight is used by fused operations and by others in one step; {fix}")
