"""What a repeated computation takes from a network besides its inputs, and whether it is still the same."""

from __future__ import annotations

from collections.abc import Hashable
from operator import is_

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules


class NetworkState:
    """Layers, modes, attributes, and where weights and buffers lie, as they are now.

    All of them are kept alive, so nothing else can take their place unseen. What is changed inside of an attribute,
    such as an entry of a list, is not seen.
    """

    def __init__(self, network: nn.Module) -> None:
        self.objects = objects_of(network)
        self.tensors = [one for one in self.objects if isinstance(one, Tensor)]
        self.numbers = numbers_of(self.tensors)

    def is_of(self, network: nn.Module) -> bool:
        """Whether the network is still in this state."""
        now = objects_of(network)
        same = len(now) == len(self.objects) and all(map(is_, now, self.objects))
        return same and numbers_of(self.tensors) == self.numbers


def objects_of(network: nn.Module) -> list[object]:
    """Everything that a forward pass may read, in a fixed order."""
    found: list[object] = []
    for one in network.modules():
        held = vars(one)
        found += (one, type(one))
        found += held.values()
        found += held["_parameters"].values()
        found += held["_buffers"].values()
        found += held["_modules"].values()
    return found


def numbers_of(tensors: list[Tensor]) -> list[Hashable]:
    """Where the tensors lie and in which form; and the modes of torch that operations read."""
    modes = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    places = [(one.data_ptr(), one.shape, one.stride(), one.dtype, one.requires_grad) for one in tensors]
    return [modes, *places]


def is_watched(network: nn.Module) -> bool:
    """Whether somebody wants to be called in every pass, which a repeated computation would not do.

    ``torch.autograd.graph.register_multi_grad_hook`` leaves no trace that could be found.
    """
    if torch.is_anomaly_enabled() or modules._has_any_global_hook():
        return True
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        return True
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return True
    if any(one._backward_hooks or one._post_accumulate_grad_hooks for one in network.parameters()):
        return True
    hooks = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return any(vars(one)[name] for one in network.modules() for name in hooks)
