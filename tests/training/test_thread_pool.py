"""Threads that share the samples of an evaluation, and how many there are."""

from __future__ import annotations

import threading

import pytest
import torch

from twoclocks import models
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training import thread_pool
from twoclocks.training.thread_pool import ThreadPool, pool_size


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
