"""What a repeated computation takes from a network besides its inputs, and whether it is still the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import is_

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules

HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


class NetworkState:
    """Layers, modes, attributes, and where weights and buffers lie, as they are now.

    All of them are kept alive, so nothing else can take their place unseen. What is changed inside of an attribute,
    such as an entry of a list, is not seen.
    """

    def __init__(self, network: nn.Module) -> None:
        self.layers = list(network.modules())
        self.objects = objects_of(self.layers)
        self.tensors = [one for one in self.objects if isinstance(one, Tensor)]
        self.numbers = numbers_of(self.tensors)
        self.hooks = [vars(one)[name] for one in self.layers for name in HOOKS]
        self.parameters = list(network.parameters())

    def has_changed(self) -> bool:
        """Whether the network is in another state now; which layers it has is seen in those that hold them."""
        now = objects_of(self.layers)
        same = len(now) == len(self.objects) and all(map(is_, now, self.objects))
        return not same or numbers_of(self.tensors) != self.numbers

    def is_watched(self) -> bool:
        """Whether somebody wants to be called in every pass, which a repeated computation would not do.

        ``torch.autograd.graph.register_multi_grad_hook`` leaves no trace that could be found.
        """
        if any(self.hooks) or modules._has_any_global_hook() or torch.is_anomaly_enabled():
            return True
        if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
            return True
        if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            return True
        return any(one._backward_hooks or one._post_accumulate_grad_hooks for one in self.parameters)


def objects_of(layers: Sequence[nn.Module]) -> list[object]:
    """Everything that a forward pass may read, in a fixed order."""
    found: list[object] = []
    for one in layers:
        held = vars(one)
        found += (one, type(one))
        found += held.values()
        found += held["_parameters"].values()
        found += held["_buffers"].values()
        found += held["_modules"].values()
    return found


def numbers_of(tensors: Sequence[Tensor]) -> list[Hashable]:
    """Where the tensors lie and in which form; and the modes of torch that operations read."""
    modes = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    places = [(one.data_ptr(), one.shape, one.stride(), one.dtype, one.requires_grad) for one in tensors]
    return [modes, *places]
