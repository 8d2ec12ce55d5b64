"""The monitor in a plain loop, and the part that all adapters share."""

from __future__ import annotations

import copy
import random
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import EVERY, STOP, TRAIN, Net, equal, looks, loss_of, new_monitor, sampler, weights
from torch import nn

import twoclocks as tc
from twoclocks.integrations.preserve import evaluation_mode, kept_random_state, sampling, unwrap
from twoclocks.integrations.pytorch import MonitorHook
from twoclocks.integrations.trackers import TensorBoard
from twoclocks.integrations.watcher import Watcher


def train_steps(net: Net, optimizer: Any, hook: MonitorHook | None, begin: int, end: int) -> int:
    for step in range(begin + 1, end + 1):
        rows = TRAIN[torch.randint(len(TRAIN), (4,))]
        optimizer.zero_grad()
        loss_of(net, rows).backward()
        optimizer.step()
        if hook is not None:
            hook.step(step, last=step == end)
            if hook.stop:
                return step
    return end


def begun() -> tuple[Net, torch.optim.Optimizer]:
    torch.manual_seed(0)
    net = Net()
    return net.train(), torch.optim.Adam(net.parameters())


def test_training_is_the_same_with_and_without_the_monitor() -> None:
    found = []
    for watched in (True, False):
        net, optimizer = begun()
        hook = MonitorHook(new_monitor("never"), sampler, EVERY, model=net) if watched else None
        assert train_steps(net, optimizer, hook, 0, 21) == 21
        found.append([*weights(net), torch.get_rng_state()])
    assert equal(*found)
    assert net.body.training and not net.frozen.training


def test_stops_at_the_second_look_with_copies() -> None:
    net, optimizer = begun()
    hook = MonitorHook(new_monitor(), sampler, EVERY, model=net)
    assert train_steps(net, optimizer, hook, 0, 40) == STOP
    assert looks(hook.watcher.monitor) == [4, 8, 12, 16] and hook.watcher.decision.copy_rate == 1


def test_looks_at_the_first_step_each_multiple_and_the_last() -> None:
    watcher = Watcher(new_monitor("never"), sampler, 10, first=3)
    net, _ = begun()
    seen = [step for step in range(26) if watcher.step(step, net, last=step == 25)]
    assert seen == [3, 10, 20, 25]
    assert watcher.step(25, net, last=True) is None  # not twice, as a loop that accumulates gradients would ask
    assert Watcher(new_monitor(), sampler, 10, first=0).is_due(0) and not Watcher(new_monitor(), sampler, 10).is_due(0)


def test_resumed_monitor_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    net, optimizer = begun()
    whole = MonitorHook(new_monitor("never"), sampler, EVERY, model=net)
    train_steps(net, optimizer, whole, 0, 14)
    torch.save([x.state_dict() for x in (net, optimizer, whole)] + [torch.get_rng_state()], tmp_path / "checkpoint")
    train_steps(net, optimizer, whole, 14, 24)

    again, its_optimizer = begun()
    resumed = MonitorHook(new_monitor("never"), sampler, EVERY, model=again)
    *states, random_state = torch.load(tmp_path / "checkpoint", weights_only=True)
    for part, state in zip((again, its_optimizer, resumed), states, strict=True):
        part.load_state_dict(state)
    torch.set_rng_state(random_state)
    train_steps(again, its_optimizer, resumed, 14, 24)
    assert equal(weights(net), weights(again)) and resumed.state_dict() == whole.state_dict()
    assert resumed.watcher.decision.as_dict() == whole.watcher.decision.as_dict()


def test_samples_depend_on_the_seed_and_the_step_alone() -> None:
    net, _ = begun()
    drawn: list[torch.Tensor] = []
    for seed, noise in ((0, 1), (0, 2), (5, 1)):
        torch.manual_seed(noise)
        watcher = Watcher(new_monitor("never"), lambda model: drawn.append(sampler(model)) or drawn[-1], 1, seed=seed)
        watcher.step(1, net)
        watcher.step(2, net)
    first, second, same, _, other, _ = drawn
    assert torch.equal(first, same) and not torch.equal(first, second) and not torch.equal(first, other)


def test_all_random_generators_are_restored() -> None:
    with kept_random_state():
        expected = torch.rand(3).tolist(), random.random(), np.random.rand(3).tolist()
    with pytest.raises(KeyError), kept_random_state(3):
        torch.rand(5), random.random(), np.random.rand()
        raise KeyError
    assert (torch.rand(3).tolist(), random.random(), np.random.rand(3).tolist()) == expected


def test_each_submodule_gets_its_own_mode_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout(), nn.Dropout())).train()
    model[1][0].eval()
    with pytest.raises(KeyError), evaluation_mode(model):
        assert not any(module.training for module in model.modules())
        raise KeyError
    assert [module.training for module in model.modules()] == [True, True, True, False, True]


class Stored:
    """As EMAModel of diffusers and torch-ema keep averaged weights."""

    def __init__(self, value: float) -> None:
        self.value = value

    def store(self, parameters: Any) -> None:
        self.before = [parameter.detach().clone() for parameter in parameters]

    def copy_to(self, parameters: Any) -> None:
        for parameter in parameters:
            parameter.data.fill_(self.value)

    def restore(self, parameters: Any) -> None:
        for parameter, value in zip(parameters, self.before, strict=True):
            parameter.data.copy_(value)


def emas(model: nn.Module) -> list[Any]:
    filled = copy.deepcopy(model)
    Stored(7.0).copy_to(filled.parameters())
    stored = Stored(7.0)

    @contextmanager
    def average() -> Any:
        stored.store(model.parameters())
        stored.copy_to(model.parameters())
        yield
        stored.restore(model.parameters())

    return [Stored(7.0), filled, torch.optim.swa_utils.AveragedModel(filled), average]


@pytest.mark.parametrize("kind", range(4), ids=["exchanged", "module", "averaged model", "context manager"])
def test_averaged_weights_are_sampled_and_the_own_ones_restored(kind: int) -> None:
    net, _ = begun()
    before, ema = weights(net), emas(net)[kind]
    with sampling(net, ema, 0) as model:
        assert all((parameter == 7).all() for parameter in model.parameters()) and not model.body.training
    if kind == 0:
        with pytest.raises(KeyError), sampling(net, ema, 0):
            raise KeyError
    assert equal(weights(net), before) and net.body.training


def test_wrong_arguments_are_named() -> None:
    net, _ = begun()
    for wrong, words in (
        ({"every": 0}, "every: 0 is not allowed"),
        ({"first": -1}, "first: -1 is not allowed"),
        ({"sampler": 3}, "sampler: 3 is not a function"),
        ({"trackers": "tensorbord"}, "did you mean 'tensorboard'"),
        ({"trackers": [3]}, "trackers: 3 is not allowed"),
    ):
        with pytest.raises(tc.UserError, match=words):
            Watcher(**{"monitor": new_monitor(), "sampler": sampler, **wrong})
    with pytest.raises(tc.UserError, match="ema: int is not allowed"):
        Watcher(new_monitor(), sampler, 1, ema=3).step(1, net)


def test_wrappers_are_removed_and_sharded_models_refused() -> None:
    class FullyShardedDataParallel(nn.Linear):
        pass

    net = nn.Linear(2, 2)
    assert unwrap(nn.DataParallel(net)) is net
    with pytest.raises(tc.UserError, match="sharded over processes"):
        unwrap(nn.Sequential(FullyShardedDataParallel(2, 2)))


def test_losses_reach_the_monitor() -> None:
    net, _ = begun()
    watcher = Watcher(new_monitor("never"), sampler, 1, losses=lambda model: (1.0, 1.25))
    watcher.step(1, net)
    assert watcher.state_dict()["looks"][0]["gap"] == 0.25


def test_steps_that_are_counted_in_jumps_are_not_missed() -> None:
    hook = MonitorHook(new_monitor("never"), sampler, 500, model=Net())
    seen = [step for step in range(64, 2000, 64) if hook.step(step) is not None]
    assert seen == [512, 1024, 1536]


def test_a_resumed_hook_knows_that_it_had_stopped() -> None:
    first, second = (MonitorHook(new_monitor("memory"), lambda model: TRAIN, 1, model=Net()) for _ in range(2))
    for step in range(1, 40):
        first.step(step)
        if first.stop:
            break
    second.load_state_dict(first.state_dict())
    assert first.stop and second.stop


def test_a_gallery_that_fails_does_not_end_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        raise OSError("disk full")

    monitor = new_monitor("never")
    monkeypatch.setattr(monitor, "gallery", broken)
    hook = MonitorHook(monitor, lambda model: TRAIN, 1, model=Net(), trackers=[TensorBoard(tmp_path)])
    assert hook.step(1) is not None
