"""The training loop: one function, resumable at any step, whose randomness depends on (seed, step) alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from twoclocks.core.config import Settings, setting
from twoclocks.core.seeds import derive
from twoclocks.objectives.base import Objective
from twoclocks.training.errors import DivergedError

CHECK_EVERY = 50  # steps between two looks at the loss


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Settings):
    """Steps, batch, optimizer and where to run."""

    steps: int = setting(help="optimizer steps", at_least=1, at_most=10**12)
    batch: int = setting(256, "samples a step, drawn with replacement", at_least=1, at_most=10**6)
    optimizer: Literal["adam", "adamw"] = setting("adam", "Adam, or AdamW for decoupled weight decay")
    learning_rate: float = setting(1e-4, "constant step size", above=0)
    weight_decay: float = setting(0.0, "weight decay", at_least=0)
    seed: int = setting(0, "seed of initial weights, batches and noise")
    device: str = setting("cpu", "cpu, cuda or cuda:N")
    threads: int = setting(0, "CPU threads; 0 leaves the choice to torch", at_least=0, at_most=256)
    precision: Literal["float32", "tf32"] = setting("float32", "matrix products on the GPU: exact or TF32")


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    cls = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return cls(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)


def train(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
    data: Tensor,
    settings: TrainingSettings,
    schedule: tuple[int, ...],
    on_evaluation: Callable[[int, float], None],
    on_check: Callable[[int, float], None] = lambda step, loss: None,
    start: int = 0,
) -> None:
    """Train from step ``start`` to ``settings.steps``; "step s" means after s updates.

    ``on_evaluation(step, loss)`` is called at every scheduled step with the mean training loss since the last call.
    Losses are summed on the device and looked at every CHECK_EVERY steps and before each call, so the host need not
    wait at every step; what is not finite raises before it is evaluated or stored. ``on_check`` hears of every look.
    """
    generator = torch.Generator(device=data.device)
    pending = [step for step in schedule if step >= start]
    total, since = torch.zeros((), dtype=torch.float64, device=data.device), start
    if pending and pending[0] == start:  # before the first update there is no loss to report
        on_evaluation(pending.pop(0), float("nan"))
    network.train()
    for step in range(start + 1, settings.steps + 1):
        generator.manual_seed(derive(settings.seed, "training step", step))
        rows = torch.randint(len(data), (settings.batch,), generator=generator, device=data.device)
        loss = objective.loss(network, data[rows], generator).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        due = bool(pending) and pending[0] == step
        if due or step % CHECK_EVERY == 0 or step == settings.steps:
            check_finite(network, total, step, kept=since)
            on_check(step, float(total) / (step - since))
        if due:
            pending.pop(0)
            network.eval()
            on_evaluation(step, float(total) / (step - since))
            network.train()
            total, since = torch.zeros_like(total), step


def check_finite(network: nn.Module, total: Tensor, step: int, kept: int) -> None:
    """A sum keeps every NaN and infinity that entered it; the weights show what the last update did."""
    if not bool(torch.isfinite(total)) or not all(bool(torch.isfinite(p).all()) for p in network.parameters()):
        raise DivergedError(step, kept)
