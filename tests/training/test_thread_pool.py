"""Threads that share a batch take the same step as one, and no thread sees another's gradients."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from twoclocks import data, models, objectives
from twoclocks.data.encodings import SignImage
from twoclocks.data.shown import Shown
from twoclocks.rules import Parity
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training import thread_pool
from twoclocks.training.loop import LoopState, TrainingSettings, make_step
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.order import RandomOrder
from twoclocks.training.step import PlainStep, SharedStep
from twoclocks.training.thread_pool import ThreadPool, pool_size, replicas

RULE = Parity(length=12, group=3)
DATA = SignImage().encode(RULE, data.training_set(RULE, 16))


def trained(threads: int, batch: int, steps: int = 5) -> tuple[torch.Tensor, float]:
    torch.manual_seed(0)
    network = models.create("dit", width=16, depth=2, heads=2).build((1, 3, 4), 2)
    optimizer = make_optimizer(network, TrainingSettings(steps=1, learning_rate=1e-3))
    generator, loss_sum = torch.Generator(), torch.zeros((), dtype=torch.float64)
    order = RandomOrder(len(DATA), batch, generator)
    parts = network, optimizer, objectives.EDM(), Shown(DATA), order, generator, loss_sum
    step = SharedStep(*parts, pool=ThreadPool(threads)) if threads > 1 else PlainStep(*parts)
    for number in range(steps):
        generator.manual_seed(number)
        step()
    return torch.cat([p.detach().flatten() for p in network.parameters()]), float(loss_sum)


@pytest.mark.parametrize(("threads", "batch"), [(2, 8), (3, 8), (4, 3)])
def test_shared_steps_are_the_plain_steps_up_to_rounding(threads: int, batch: int) -> None:
    (plain, loss), (shared, loss_shared) = trained(1, batch), trained(threads, batch)
    assert torch.allclose(shared, plain, atol=2e-5) and loss_shared == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_every_thread_finishes_the_gradients_of_its_own_form(threads: int) -> None:
    finished: list[bool] = []

    class Form:
        """The textbook forward pass, which records whether each backward pass was over when it was finished."""

        def __call__(self, network: models.Network, *inputs: Any, **named: Any) -> torch.Tensor:
            self.network = network
            out: torch.Tensor = network.forward(*inputs, **named)
            return out

        def finish_gradients(self) -> None:
            finished.append(all(parameter.grad is not None for parameter in self.network.parameters()))

        def weights_changed(self) -> None:
            raise AssertionError("only the optimizer changes the weights")

    settings = TrainingSettings(steps=1, batch=8)
    network = models.create("dit", width=16, depth=1, heads=2).build(tuple(DATA.shape[1:]), 2)
    network.fused = Form()
    optimizer = make_optimizer(network, settings)
    step = make_step(network, optimizer, objectives.EDM(), Shown(DATA), settings, LoopState(), ThreadPool(threads))
    step(1)
    assert finished == [True] * threads


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chosen", [{"distinct": True}, {"order": "epochs"}])
def test_the_order_of_rows_reaches_every_kind_of_step(threads: int, chosen: dict[str, Any]) -> None:
    settings = TrainingSettings(steps=1, batch=len(DATA), **chosen)
    network = models.create("dit", width=16, depth=1, heads=2).build(tuple(DATA.shape[1:]), 2)
    optimizer = make_optimizer(network, settings)
    step = make_step(network, optimizer, objectives.EDM(), Shown(DATA), settings, LoopState(), ThreadPool(threads))
    step(1)
    assert isinstance(step.update, PlainStep) and isinstance(step.update, SharedStep) == (threads > 1)
    order = step.update.order
    assert order.begin in step.begins
    assert order.rows().sort().values.tolist() == list(range(len(DATA)))


def test_shared_steps_are_the_same_every_time() -> None:
    assert torch.equal(trained(3, 8)[0], trained(3, 8)[0])


def test_replicas_share_weights_but_not_gradients() -> None:
    network = torch.nn.Linear(2, 2)
    _, other = replicas(network, 2)
    with torch.no_grad():
        network.weight.fill_(3.0)
    other(torch.ones(1, 2)).sum().backward()
    assert bool((other.weight == 3).all()) and network.weight.grad is None and other.weight.grad is not None


def test_a_pool_works_side_by_side_and_keeps_the_order() -> None:
    barrier = threading.Barrier(3, timeout=10)  # passes only if three threads are in it at once

    def work(item: int) -> tuple[int, int]:
        barrier.wait()
        return item * item, torch.get_num_threads()

    assert ThreadPool(3).map(work, [1, 2, 3]) == [(1, 1), (4, 1), (9, 1)]


def test_the_pool_grows_with_the_work_up_to_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "CORES", 8)
    assert pool_size(0, parameters=1000, tokens=100) == 1
    assert pool_size(0, parameters=10**6, tokens=100) == 3
    assert pool_size(0, parameters=10**9, tokens=10**4) == 8
    assert pool_size(5, parameters=1, tokens=1) == 5


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_samples_do_not_depend_on_the_number_of_threads(preset: str) -> None:
    change = {"model": {"width": 16, "depth": 1, "heads": 2}, "evaluation.samples": 300}
    one, three = (Experiment(load_settings(preset, {**change, "training.threads": k})) for k in (1, 3))
    assert three.pool.size == 3
    assert torch.allclose(one.sample().float(), three.sample().float(), atol=1e-4)


def test_an_error_stops_the_whole_pool_at_once() -> None:
    """The others are in long work; their next call of the network ends it, and none is left behind."""
    pool, calls, begun = ThreadPool(2), [], threading.Event()

    class Counting(models.Network):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            begun.set()
            return x

    network = pool.guarded(Counting())

    def work(fail: bool) -> None:
        if fail:
            begun.wait(10)
            raise FloatingPointError("a sample is not finite")
        for _ in range(200):
            network(torch.zeros(1))
            threading.Event().wait(0.02)

    with pytest.raises(FloatingPointError):
        pool.map(work, [True, False])
    count = len(calls)
    assert 0 < count < 100
    threading.Event().wait(0.1)
    assert len(calls) == count
    assert pool.map(lambda item: item + 1, [1, 2, 3]) == [2, 3, 4]  # and is ready for other work


def test_a_guarded_network_is_the_network() -> None:
    network = models.create("gpt", width=16, depth=1, heads=1).build((4,), 2)
    guarded = ThreadPool(2).guarded(network)
    tokens = torch.zeros(1, 4, dtype=torch.int64)
    assert torch.equal(guarded(tokens), network(tokens)) and torch.equal(guarded(tokens=tokens), network(tokens))
    assert len(guarded.new_cache().entries) == 1
