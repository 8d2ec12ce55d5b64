"""Which networks have a fused forward pass, and which form a network gets for a precision and a device.

A fused forward pass is a function ``(network, operations, *inputs)`` that computes what ``network.forward(*inputs)``
computes. It is registered for one class and held against that class's ``forward``, output by output and gradient by
gradient (tests/kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from twoclocks.core.errors import SettingError
from twoclocks.models.base import FusedForm, Network

Stacks = Sequence[Sequence[nn.Linear]]
Forward = TypeVar("Forward", bound=Callable[..., Tensor])


@dataclass(frozen=True)
class Fusion:
    """The fused forward pass of one class of networks."""

    forward: Callable[..., Tensor]
    stacks: Callable[[Any], Stacks]  # layers that read the same input: fused, they are one matrix


FUSIONS: dict[type[Network], Fusion] = {}


def fused_forward(
    network: type[Network], stacks: Callable[[Any], Stacks] = lambda network: ()
) -> Callable[[Forward], Forward]:
    """Decorator: register a function as the fused forward pass of a class (not of its subclasses)."""

    def add(function: Forward) -> Forward:
        if network in FUSIONS:
            raise ValueError(f"{network.__name__} already has a fused forward pass")
        FUSIONS[network] = Fusion(function, stacks)
        return function

    return add


def fusions() -> dict[type[Network], Fusion]:
    """The fused forward pass of every class that has one."""
    from twoclocks.kernels import transformers

    assert transformers.__doc__  # importing it registers them
    return FUSIONS


def make_form(
    network: Network, precision: Literal["float32", "tf32", "bfloat16"], on_gpu: bool, fused: bool, optimizer: str
) -> FusedForm | None:
    """How the network's forward pass is computed; None: as the textbook does. ``optimizer`` is its name."""
    if not on_gpu and precision == "float32":
        return cpu_form(network) if fused else None
    if precision != "bfloat16":
        return None
    # The fused optimizers have one rate for all parameters.
    if not (fused and on_gpu) or network.learning_rates(optimizer):
        return MixedForm()
    return triton_form(network) or MixedForm()


def cpu_form(network: Network) -> FusedForm | None:
    """Its form for a CPU; None if it has none."""
    from twoclocks.kernels.cpu_functions import prefers_onednn
    from twoclocks.kernels.cpu_operations import CpuForm
    from twoclocks.kernels.linear_layers import NETWORKS, LinearForm

    if type(network) in fusions():
        return CpuForm(network)
    return LinearForm() if type(network) in NETWORKS and prefers_onednn() else None


def triton_form(network: Network) -> FusedForm | None:
    """Its form for a GPU; None if it has none."""
    if type(network) not in fusions():
        return None
    try:
        from twoclocks.kernels.triton_operations import TritonForm
    except ModuleNotFoundError:
        fix = "the package triton is not installed; install it, or use plain"
        raise SettingError("training.kernels", "fused", fix) from None
    return TritonForm(network)


class MixedForm:
    """The textbook forward pass under PyTorch's autocast: large products in bfloat16, weights and sums in float32."""

    def __call__(self, network: Network, *inputs: Any, **named: Any) -> Tensor:
        device = next(network.parameters()).device.type
        with torch.autocast(device, torch.bfloat16):
            out: Tensor = network.forward(*inputs, **named)
        return out

    def finish_gradients(self) -> None:
        """Autograd has completed them."""

    def weights_changed(self) -> None:
        """Nothing is derived from the weights."""
