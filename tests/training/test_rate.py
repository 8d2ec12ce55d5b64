"""Warm-up and decay of the learning rate: the rates of torch's own schedulers, and the same run after a stop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from twoclocks import objectives
from twoclocks.core.errors import SettingError
from twoclocks.data.shown import Shown
from twoclocks.models.base import Network
from twoclocks.training.loop import LoopState, TrainingSettings, train
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.rate import rate_factor

SETTINGS = TrainingSettings(steps=30, batch=4, optimizer="sgd", learning_rate=0.1, warm_up=5, decay_steps=40)
TOKENS = torch.zeros(8, 3, dtype=torch.int64)


class Bias(Network):
    """Two logits: 0 and its one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.stack([torch.zeros(tokens.shape), torch.zeros(tokens.shape) + self.weight], dim=-1)


def test_factors_are_those_of_torch() -> None:
    """The first rate of torch's linear warm-up is chosen such that the last of its steps has the full rate."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=35)
    both = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[4])
    for step in range(1, 41):
        assert rate_factor(step, 5, 40) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-9), step
        optimizer.step()
        both.step()
    assert rate_factor(40, 5, 40) == 0.0


def trained(settings: TrainingSettings, halves: bool = False) -> tuple[Network, list[float]]:
    """A network after training, and its weight after every step; with a new optimizer from step 13 on, or not."""
    network, state, found = Bias(), LoopState(), list[float]()
    optimizer = make_optimizer(network, settings)

    def store(step: int) -> None:
        found.append(float(network.weight.detach()))

    for steps in (13, 30) if halves else (30,):
        kept = optimizer.state_dict()["state"]
        optimizer = make_optimizer(network, settings)
        optimizer.load_state_dict({"state": kept, "param_groups": optimizer.state_dict()["param_groups"]})
        part = replace(settings, steps=steps)
        parts = (network, optimizer, objectives.Autoregressive(), Shown(TOKENS), part, (steps,))
        train(*parts, on_evaluation=lambda step, loss: None, on_step=store, state=state)
    return network, found


def test_every_step_is_taken_with_its_rate() -> None:
    """All tokens are 0, so the gradient of the mean loss by the second logit is its probability."""
    _, found = trained(SETTINGS)
    weight = 0.0
    for step, seen in enumerate(found, start=1):
        probability = 1 / (1 + torch.exp(torch.tensor(-weight, dtype=torch.float64)))
        weight -= 0.1 * rate_factor(step, 5, 40) * float(probability)
        assert seen == pytest.approx(weight, rel=1e-4), step


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_resumed_run_has_the_same_rates(optimizer: str) -> None:
    settings = replace(SETTINGS, optimizer=optimizer)
    assert trained(settings, halves=True)[1] == trained(settings)[1]
    constant = replace(settings, warm_up=0, decay_steps=0)
    assert trained(constant)[1] != trained(settings)[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"decay_steps": 29}, "decay_steps.*at least training.steps"),
        ({"warm_up": 40}, "warm_up.*fewer than training.decay_steps"),
        ({"warm_up": -1}, "warm_up"),
    ],
)
def test_schedules_that_cannot_be_are_refused(change: dict[str, int], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        replace(SETTINGS, **change)
