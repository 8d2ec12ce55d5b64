"""Gradient descent on flat memory: all parameters in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from twoclocks.kernels.flat import Flat, Rate


class FlatDescent(torch.optim.Optimizer):
    """torch's SGD for the parameters of a ``Flat``, whose shadows it renews.

    Its state is interchangeable with that of torch's optimizer.
    """

    def __init__(self, flat: Flat, lr: Rate, weight_decay: float = 0.0, momentum: float = 0.0) -> None:
        self.flat = flat
        self.velocity = torch.zeros_like(flat.values) if momentum else None
        super().__init__(flat.parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.share()

    def share(self) -> None:
        """Show the flat velocity under the name that torch's SGD gives it."""
        if self.velocity is not None:
            for parameter in self.flat.parameters:
                self.state[parameter] = {"momentum_buffer": self.flat.view(self.velocity, parameter)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copies the velocity into the flat memory, where a captured step reads it."""
        super().load_state_dict(state_dict)
        if self.velocity is not None:
            loaded = dict(self.state)
            if not loaded:
                self.velocity.zero_()
            for parameter, moments in loaded.items():
                self.flat.view(self.velocity, parameter).copy_(moments["momentum_buffer"])
            self.share()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        (group,) = self.param_groups
        change = self.flat.gradients.add(self.flat.values, alpha=group["weight_decay"])
        if self.velocity is not None:
            change = self.velocity.mul_(group["momentum"]).add_(change)
        if isinstance(group["lr"], torch.Tensor):
            self.flat.values.addcmul_(change, group["lr"], value=-1)
        else:
            self.flat.values.add_(change, alpha=-group["lr"])
        self.flat.refresh()
