"""A small model whose samples become copies at a known step, for the tests of all adapters."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import nn

import twoclocks as tc
from twoclocks.clocks import ClockSettings

ENTRIES, TURN, EVERY = 40, 12, 4  # copies appear from step TURN on
STOP = 16  # the second look with copies: the settings below ask for two
TRAIN = torch.as_tensor(np.random.default_rng(0).integers(0, 2, (32, ENTRIES)))


class Net(nn.Module):
    """Dropout, so that random state matters; a part frozen in eval mode; a buffer that counts training steps."""

    def __init__(self, turn: int = TURN) -> None:
        super().__init__()
        self.turn = turn
        self.body = nn.Sequential(nn.Linear(ENTRIES, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, ENTRIES))
        self.frozen = nn.Dropout(0.5).eval()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.steps += 1
        return self.frozen(self.body(x))

    def train(self, mode: bool = True) -> Net:
        super().train(mode)
        self.frozen.eval()
        return self


def loss_of(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return ((model(rows.float()) - rows) ** 2).mean()


def sampler(model: Any) -> torch.Tensor:
    """Training rows once the model has trained long enough, else noise; uses every random generator."""
    net = getattr(model, "net", model)
    assert not any(module.training for module in net.modules()) and not torch.is_grad_enabled()
    random.random(), np.random.rand()
    rows = (net(torch.randn(64, ENTRIES)) + torch.randn(64, ENTRIES) > 0).long()
    return TRAIN[torch.randint(len(TRAIN), (64,))] if net.steps >= net.turn else rows


def new_monitor(policy: str = "memory") -> tc.Monitor:
    return tc.Monitor(train=TRAIN, settings=ClockSettings(sustain=2), policy=policy)  # type: ignore[arg-type]


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for value in model.state_dict().values()]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(one, other) for one, other in zip(a, b, strict=True))


def looks(monitor: tc.Monitor) -> list[int]:
    return [look["step"] for look in monitor.state()["looks"]]
