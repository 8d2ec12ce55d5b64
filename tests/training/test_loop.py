"""The loop: evaluation cannot touch the weights, resuming is the same run, divergence is caught in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from twoclocks import data, models, objectives
from twoclocks.core.errors import SettingError
from twoclocks.data.encodings import SignImage
from twoclocks.data.shown import Shown
from twoclocks.models import Network
from twoclocks.rules import Parity
from twoclocks.training.errors import DivergedError
from twoclocks.training.loop import LoopState, TrainingSettings, train
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.schedule import check_schedule, log_spaced

RULE = Parity(length=12, group=3)
DATA = SignImage().encode(RULE, data.training_set(RULE, 16))
SETTINGS = TrainingSettings(steps=30, batch=8, learning_rate=1e-3)


def fresh(settings: TrainingSettings = SETTINGS) -> tuple[Network, torch.optim.Optimizer]:
    torch.manual_seed(0)
    network = models.create("dit", width=16, depth=1, heads=2).build((1, 3, 4), 2)
    return network, make_optimizer(network, settings)


def weights(network: Network) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def run(schedule: tuple[int, ...], disturb: bool = False, settings: TrainingSettings = SETTINGS) -> torch.Tensor:
    network, optimizer = fresh(settings)

    def on_evaluation(step: int, loss: float) -> None:
        if disturb:
            torch.manual_seed(step)
            torch.rand(100)
            with torch.no_grad():
                network(torch.randn(4, 1, 3, 4), torch.randn(4))

    train(network, optimizer, objectives.EDM(), Shown(DATA), settings, schedule, on_evaluation)
    return weights(network)


def test_weights_are_bit_identical_with_evaluation_on_or_off() -> None:
    assert torch.equal(run((30,)), run((0, 1, 2, 5, 11, 30), disturb=True))


def test_seed_changes_the_run() -> None:
    assert not torch.equal(run((30,)), run((30,), settings=replace(SETTINGS, seed=1)))


def test_training_in_two_halves_is_the_same_run() -> None:
    network, optimizer = fresh()
    first = replace(SETTINGS, steps=13)
    state = LoopState()
    train(network, optimizer, objectives.EDM(), Shown(DATA), first, (13,), lambda step, loss: None, state=state)
    train(network, optimizer, objectives.EDM(), Shown(DATA), SETTINGS, (30,), lambda step, loss: None, state=state)
    assert state.step == 30 and torch.equal(weights(network), run((30,)))


class Recorder(Network):
    """Remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.seen: list[torch.Tensor] = []

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.seen.append(tokens[:, 1:])
        return torch.zeros(*tokens.shape, 2) + self.weight


def test_every_step_draws_its_own_batch_and_all_rows_are_seen() -> None:
    network, rows = Recorder(), data.training_set(RULE, 16)
    train(
        network,
        make_optimizer(network, SETTINGS),
        objectives.Autoregressive(),
        Shown(rows),
        SETTINGS,
        (30,),
        lambda s, x: None,
    )
    assert len(network.seen) == 30 and all(len(batch) == 8 for batch in network.seen)
    assert len({batch.numpy().tobytes() for batch in network.seen}) == 30
    assert len(torch.unique(torch.cat(network.seen), dim=0)) == len(torch.unique(rows[:, :-1], dim=0))


def test_schedule_is_followed_and_loss_is_the_mean_since_the_last_call() -> None:
    def losses(schedule: tuple[int, ...]) -> dict[int, float]:
        found: dict[int, float] = {}
        network, optimizer = fresh()
        train(network, optimizer, objectives.EDM(), Shown(DATA), SETTINGS, schedule, lambda s, x: found.update({s: x}))
        return found

    every = losses(tuple(range(1, 31)))
    some = losses((0, 4, 10, 30))
    assert list(some) == [0, 4, 10, 30] and some[0] != some[0]
    assert some[10] == pytest.approx(sum(every[s] for s in range(5, 11)) / 6)


class Exploding(Network):
    """Fine for some steps, then NaN: a run that diverges at a known step."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.weight, self.calls, self.good = nn.Parameter(torch.zeros(1)), 0, good

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.weight * (float("nan") if self.calls > self.good else 1.0)


@pytest.mark.parametrize("good", [0, 7, 24])
def test_loss_that_is_not_finite_stops_before_anything_bad_is_evaluated(good: int) -> None:
    network = Exploding(good)
    evaluated: list[int] = []
    with pytest.raises(DivergedError, match=r"smaller training\.learning_rate") as caught:
        train(
            network,
            make_optimizer(network, SETTINGS),
            objectives.EDM(),
            Shown(DATA),
            SETTINGS,
            (5, 10, 20, 30),
            lambda step, loss: evaluated.append(step),
        )
    assert evaluated == [step for step in (5, 10, 20, 30) if step <= good]
    assert caught.value.last_good == max(evaluated, default=0)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_one_update_is_the_published_formula(name: str) -> None:
    """First step of Adam: w − lr·g/(|g| + ε); decay enters the gradient in Adam, the weight itself in AdamW."""
    settings = replace(SETTINGS, optimizer=name, learning_rate=0.1, weight_decay=0.5)

    class Layer(Network, nn.Linear): ...

    layer = Layer(1, 1, bias=False)
    before, gradient = 2.0, -0.25
    layer.weight.data.fill_(before)
    layer.weight.grad = torch.full((1, 1), gradient)
    make_optimizer(layer, settings).step()
    if name == "adam":
        expected = before - 0.1 * (gradient + 0.5 * before) / abs(gradient + 0.5 * before)
    else:
        expected = before * (1 - 0.1 * 0.5) - 0.1 * gradient / abs(gradient)
    assert float(layer.weight.detach()) == pytest.approx(expected, abs=1e-5)


def test_weights_that_are_not_finite_are_caught_though_the_loss_was() -> None:
    """The last update can ruin the weights while every loss so far was finite."""
    network, _ = fresh()
    optimizer = torch.optim.SGD(network.parameters(), lr=float("inf"))
    evaluated: list[int] = []
    with pytest.raises(DivergedError):
        train(
            network,
            optimizer,
            objectives.EDM(),
            Shown(DATA),
            replace(SETTINGS, steps=1),
            (1,),
            lambda s, x: evaluated.append(s),
        )
    assert evaluated == []


def test_log_spacing_is_increasing_distinct_and_reaches_both_ends() -> None:
    for first, last, count in ((10, 500_000, 80), (1, 20, 50), (5, 5, 3), (7, 3, 2)):
        steps = log_spaced(first, last, count)
        assert steps[-1] == last and list(steps) == sorted(set(steps)) and len(steps) <= count
        assert steps[0] == min(first, last)
        check_schedule(steps, last)


@pytest.mark.parametrize("schedule", [(), (5, 3), (5, 5), (5, 31), (-1, 30), (5, 10)])
def test_bad_schedules_are_refused(schedule: tuple[int, ...]) -> None:
    with pytest.raises(SettingError, match=r"evaluation\.steps"):
        check_schedule(schedule, steps=30)


def test_a_schedule_too_short_for_the_clocks_is_refused() -> None:
    assert check_schedule((10, 30), steps=30, at_least=2) == (10, 30)
    with pytest.raises(SettingError, match="sustain = 3"):
        check_schedule((10, 30), steps=30, at_least=3)
