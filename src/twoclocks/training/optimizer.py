"""The fused forms that a run's settings ask for, and its optimizer: on flat memory where the form has it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from twoclocks.kernels import make_form
from twoclocks.kernels.flat import Flat, FlatForm, Rate
from twoclocks.kernels.flat_descent import FlatDescent
from twoclocks.models.base import Network
from twoclocks.objectives.base import Objective
from twoclocks.training.loop import OptimizerName, TrainingSettings


def use_kernels(network: Network, objective: Objective, settings: TrainingSettings) -> Objective:
    """Give the network the form that the settings ask for; return the objective in the form that goes with it."""
    fused = settings.kernels == "fused"
    network.fused = make_form(network, settings.precision, settings.on_gpu, fused, settings.optimizer)
    if not isinstance(network.fused, FlatForm):
        return objective
    from twoclocks.kernels.fused_objectives import fused_objective  # which needs Triton

    return fused_objective(objective)


def make_optimizer(network: Network, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Adam, AdamW or gradient descent; a network may ask for rates of its own (``learning_rates``)."""
    if isinstance(network.fused, FlatForm):
        return flat_optimizer(network.fused.flat, settings)
    classes: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    descends = settings.optimizer == "sgd"
    more = {"momentum": settings.momentum} if descends else {"capturable": settings.captures}
    rate = initial_rate(next(network.parameters()).device, settings)
    groups = rate_groups(network, settings.optimizer, rate)
    optimizer: torch.optim.Optimizer = classes[settings.optimizer](
        groups, lr=rate, weight_decay=settings.weight_decay, fused=True, **more
    )
    return optimizer


def initial_rate(device: torch.device, settings: TrainingSettings) -> Rate:
    """The learning rate: in the GPU's memory if it changes within a CUDA graph, where a number would stay as it was."""
    if settings.captures and settings.changes_rate:
        return torch.tensor(settings.learning_rate, device=device)
    return settings.learning_rate


def rate_groups(network: Network, kind: OptimizerName, rate: Rate) -> list[dict[str, Any]]:
    """The parameters, those of one rate together."""
    scales = network.learning_rates(kind)
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        groups.setdefault(scales.get(name, 1.0), []).append(parameter)
    return [{"params": members, "lr": rate * scale} for scale, members in groups.items()]


def names_in_order(network: Network, optimizer: torch.optim.Optimizer) -> list[str]:
    """The names of the parameters in the order in which the optimizer's state counts them."""
    names = {parameter: name for name, parameter in network.named_parameters()}
    return [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]


def flat_optimizer(flat: Flat, settings: TrainingSettings) -> torch.optim.Optimizer:
    chosen = flat, initial_rate(flat.values.device, settings), settings.weight_decay
    if settings.optimizer == "sgd":
        return FlatDescent(*chosen, settings.momentum)
    from twoclocks.kernels.adam import FlatAdam  # which needs Triton

    return FlatAdam(*chosen, decoupled=settings.optimizer == "adamw")
