"""The optimizer of a run: on flat memory where the operations have it, else PyTorch's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from twoclocks.kernels.flat import Flat
from twoclocks.kernels.flat_adam import FlatAdam
from twoclocks.kernels.flat_descent import FlatDescent
from twoclocks.training.loop import OptimizerName, TrainingSettings
from twoclocks.training.step import operations_of


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Adam, AdamW or gradient descent; a network may ask for rates of its own (``learning_rates``)."""
    flat = getattr(operations_of(network), "flat", None)
    if flat is not None:
        return flat_optimizer(flat, settings)
    classes: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    more = {} if settings.optimizer == "sgd" else {"capturable": settings.captures}
    groups = rate_groups(network, settings.optimizer, settings.learning_rate)
    optimizer: torch.optim.Optimizer = classes[settings.optimizer](
        groups, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True, **more
    )
    return optimizer


def rate_groups(network: nn.Module, kind: OptimizerName, rate: float) -> list[dict[str, Any]]:
    """The parameters, those of one rate together."""
    scales = network.learning_rates(kind) if hasattr(network, "learning_rates") else {}  # type: ignore[operator]
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        groups.setdefault(scales.get(name, 1.0), []).append(parameter)
    return [{"params": members, "lr": rate * scale} for scale, members in groups.items()]


def names_in_order(network: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """The names of the parameters in the order in which the optimizer's state counts them."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    return [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]


def flat_optimizer(flat: Flat, settings: TrainingSettings) -> torch.optim.Optimizer:
    chosen = flat, settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return FlatDescent(*chosen)
    decoupled = settings.optimizer == "adamw"
    if flat.shadows is flat.values:
        return FlatAdam(*chosen, decoupled)
    from twoclocks.kernels.adam import ShadowAdam  # which needs Triton

    return ShadowAdam(*chosen, decoupled)
