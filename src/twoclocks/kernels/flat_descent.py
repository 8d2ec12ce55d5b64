"""Gradient descent on flat memory: all parameters in one call."""

from __future__ import annotations

from collections.abc import Callable

import torch

from twoclocks.kernels.flat import Flat


class FlatDescent(torch.optim.Optimizer):
    """torch's SGD without momentum for the parameters of a ``Flat``, whose shadows it renews."""

    def __init__(self, flat: Flat, lr: float, weight_decay: float = 0.0) -> None:
        self.flat = flat
        super().__init__(flat.parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        (group,) = self.param_groups
        self.flat.values.mul_(1 - group["lr"] * group["weight_decay"])
        self.flat.values.add_(self.flat.gradients, alpha=-group["lr"])
        self.flat.refresh()
