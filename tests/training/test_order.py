"""The order in which steps see the training set: what every row can expect, and that it depends on (seed, step)."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest
import torch

from twoclocks.core.errors import SettingError
from twoclocks.models.base import Network
from twoclocks.runs import Experiment, load_settings
from twoclocks.training.loop import TrainingSettings, make_order
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.order import EpochOrder, RandomOrder

CPU = torch.device("cpu")


def drawn(order: EpochOrder, steps: range) -> list[list[int]]:
    found = []
    for step in steps:
        order.begin(step)
        found.append(order.rows().tolist())
    return found


@pytest.mark.parametrize(("n", "batch"), [(12, 4), (12, 5), (5, 12), (7, 7), (3, 1)])
def test_every_epoch_has_every_row_once(n: int, batch: int) -> None:
    steps = drawn(EpochOrder(n, batch, seed=3, device=CPU), range(1, 6 * n + 1))
    assert {len(rows) for rows in steps} == {batch}
    rows = [row for step in steps for row in step]
    epochs = [rows[start : start + n] for start in range(0, len(rows) - n + 1, n)]
    assert all(sorted(epoch) == list(range(n)) for epoch in epochs)
    assert n < 4 or len({tuple(epoch) for epoch in epochs}) > 1, "epochs are shuffled anew"


def test_a_step_does_not_depend_on_the_steps_before_it() -> None:
    straight = drawn(EpochOrder(10, 4, 0, CPU), range(1, 31))
    back = drawn(EpochOrder(10, 4, 0, CPU), range(30, 0, -1))
    assert straight == back[::-1]
    assert straight != drawn(EpochOrder(10, 4, 1, CPU), range(1, 31))


def test_every_order_of_an_epoch_is_equally_likely() -> None:
    order = EpochOrder(3, 3, 0, CPU)
    often = Counter(tuple(rows) for rows in drawn(order, range(1, 6001)))
    assert len(often) == 6 and all(abs(count - 1000) < 150 for count in often.values())


def test_distinct_rows_are_a_random_subset_and_with_the_full_batch_all() -> None:
    stream = torch.Generator().manual_seed(0)
    subset, whole = RandomOrder(16, 5, stream, distinct=True), RandomOrder(16, 16, stream, distinct=True)
    rows = torch.stack([subset.rows() for _ in range(2000)])
    assert all(len(set(each)) == 5 for each in rows.tolist())
    often = torch.bincount(rows.flatten(), minlength=16) / 2000
    assert torch.allclose(often, torch.full((16,), 5 / 16), atol=0.05)
    assert whole.rows().sort().values.tolist() == list(range(16))
    free = RandomOrder(16, 5, stream)
    assert any(len(free.rows().unique()) < 5 for _ in range(50)), "drawn with replacement"


def test_settings_that_exclude_each_other() -> None:
    with pytest.raises(SettingError, match=r"order.*distinct"):
        TrainingSettings(steps=1, order="epochs", distinct=True)
    with pytest.raises(SettingError, match=r"momentum.*sgd"):
        TrainingSettings(steps=1, momentum=0.9)
    assert isinstance(make_order(4, TrainingSettings(steps=1), torch.Generator()), RandomOrder)


def steps_of(made: Experiment, numbers: range) -> torch.Tensor:
    """The weights after some steps."""
    step = made.make_step()
    for number in numbers:
        step(number)
    return torch.cat([parameter.detach().flatten() for parameter in made.network.parameters()])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_run_in_epochs_continues_as_if_nothing_happened(momentum: float) -> None:
    chosen = {"order": "epochs", "optimizer": "sgd", "momentum": momentum, "learning_rate": 0.1, "threads": 1}
    change = {"training": {**chosen, "batch": 5}, "data.n": 12, "model.layout": "normalised", "model.width": 16}
    settings = load_settings("p2-rhm-small", {**change, "evaluation.samples": 128})
    whole = steps_of(Experiment(settings), range(1, 21))
    first, second = Experiment(settings), Experiment(settings)
    steps_of(first, range(1, 10))
    second.load_state(9, -1, first.state())
    assert torch.equal(steps_of(second, range(10, 21)), whole)
    assert not torch.equal(steps_of(Experiment(settings), range(2, 22)), whole)


def test_momentum_is_that_of_the_textbook() -> None:
    """v ← μ·v + g and w ← w − r·v, for gradients that are known."""
    layer = torch.nn.Linear(2, 1, bias=False)
    network = cast(Network, layer)
    network.fused, network.learning_rates = None, lambda kind: {}  # type: ignore[method-assign]
    optimizer = make_optimizer(network, TrainingSettings(steps=1, optimizer="sgd", momentum=0.5, learning_rate=0.1))
    weight, velocity = layer.weight.detach().clone(), torch.zeros(1, 2)
    for number in range(1, 5):
        layer.weight.grad = torch.full((1, 2), float(number))
        optimizer.step()
        velocity = 0.5 * velocity + number
        weight = weight - 0.1 * velocity
        assert torch.allclose(layer.weight, weight)
