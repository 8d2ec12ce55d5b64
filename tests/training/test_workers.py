"""Processes that share a batch take the step of one process, and end with it whatever happens."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from twoclocks import data, models, objectives
from twoclocks.data.encodings import SignImage
from twoclocks.data.shown import Shown
from twoclocks.rules import Parity
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.loop import LoopState, TrainingSettings, make_step
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.step import ForkedStep, PlainStep, Step
from twoclocks.training.workers import Workers, can_fork, share, shared_memory

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are copied on Linux alone")
RULE = Parity(length=12, group=3)
DATA = SignImage().encode(RULE, data.training_set(RULE, 16))
TINY = {"model.width": 16, "model.depth": 1, "model.heads": 2, "training.batch": 7, "data.n": 16}
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "dit": ("demo", {}),
    "gpt": ("demo-gpt", {}),
    "dropout": ("demo-gpt", {"model.dropout": 0.3}),
    "registers": ("demo", {"model.registers": 2}),
    "epochs": ("demo", {"training.order": "epochs"}),
    "distinct": ("demo", {"training.distinct": True}),
    "masked loss": ("demo", {"training.masked_loss": 0.5}),
    "curriculum": ("demo", {"objective.shift_steps": 10, "objective.first_shift": 1.0}),
    "augmentation": ("demo", {"data.augment": True}),
    "warm-up": ("demo", {"training.warm_up": 4}),
    "average": ("demo", {"training.average": 0.9}),
    "textbook": ("demo", {"training.kernels": "plain"}),
    "bfloat16": ("demo", {"training.precision": "bfloat16"}),
    "grammar": ("p2-rhm-small", {}),
}


def experiment(name: str, threads: int) -> Experiment:
    preset, change = CHANGES[name]
    small = {"training.batch": 7} if name == "grammar" else TINY
    return Experiment(load_settings(preset, {**small, **change, "training.threads": threads}))


def weights(one: Experiment) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in one.network.parameters()])


def moved(one: Experiment, steps: int = 6) -> Tensor:
    before, step = weights(one).clone(), one.make_step()
    for number in range(1, steps + 1):
        step(number)
    return weights(one) - before


@pytest.mark.parametrize("name", CHANGES)
def test_forked_steps_are_the_plain_steps_up_to_rounding(name: str) -> None:
    alone, forked = experiment(name, 1), experiment(name, 3)
    step = forked.make_step()
    assert isinstance(step.update, ForkedStep) and type(alone.make_step().update) is PlainStep
    expected, found = moved(alone), moved(forked)
    tolerance = 0.05 if name == "bfloat16" else 2e-3
    assert float(expected.norm()) > 0 and float((found - expected).norm()) < tolerance * float(expected.norm())
    assert float(forked.loop.loss_sum) == pytest.approx(
        float(alone.loop.loss_sum), rel=1e-5 if tolerance < 0.01 else 1e-2
    )
    if alone.average is not None and forked.average is not None:
        assert int(forked.average.updates) == int(alone.average.updates) == 6


def test_forked_steps_are_the_same_every_time() -> None:
    assert torch.equal(moved(experiment("dit", 3)), moved(experiment("dit", 3)))


def test_what_was_loaded_reaches_the_processes() -> None:
    """Also when they run already: weights lie in memory that all see."""
    first, other = experiment("dit", 3), experiment("dit", 3)
    step = first.make_step()
    for number in (1, 2):
        step(number)
    state = {name: value.clone() for name, value in first.state().items()}
    other.make_step()(1)
    other.load_state(2, 0, state)
    expected, found = first.make_step(), other.make_step()
    for number in (3, 4):
        expected(number)
        found(number)
    assert torch.equal(weights(other), weights(first))


def test_a_batch_smaller_than_the_processes() -> None:
    def after(threads: int) -> Tensor:
        small = {**TINY, "training.batch": 2, "training.threads": threads}
        return moved(Experiment(load_settings("demo", small)))

    assert torch.allclose(after(4), after(1), atol=1e-5)


class Choosy(models.Network):
    """Uses one of its weights for rows that begin with 1, another never; one of them is in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.always = nn.Parameter(torch.ones(1, dtype=torch.float64))
        self.sometimes, self.never = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        out = x * self.always.float() * self.frozen
        rows = x.flatten(1)[:, 0] > 0.5
        return out + torch.where(rows[:, None, None, None], self.sometimes, 0) if bool(rows.any()) else out


def choosy(processes: int) -> Choosy:
    network, settings = Choosy(), TrainingSettings(steps=1, batch=3, learning_rate=0.1, weight_decay=0.1)
    optimizer = make_optimizer(network, settings)
    step = make_step(network, optimizer, objectives.EDM(), Shown(DATA), settings, LoopState(), processes)
    for number in range(1, 9):
        step(number)
    return network


def test_parts_without_a_gradient_add_nothing() -> None:
    """What no part used is left alone, as by one process: its weight does not decay either."""
    alone, forked = choosy(1), choosy(3)
    assert forked.always.dtype == torch.float64 and forked.never.item() == forked.frozen.item() == 1
    for name, value in alone.named_parameters():
        assert torch.allclose(value, forked.get_parameter(name), atol=1e-5), name
    assert alone.sometimes.item() != 1


def test_processes_draw_different_numbers_from_torchs_own_stream() -> None:
    """A network with dropout of torch's own must not drop the same entries in every part."""
    workers = Workers(2, [torch.zeros(8)], lambda step, part: (0.0, [torch.rand(8)]))
    workers.begin(1)
    (_, first), (_, second) = workers.results()
    assert first[0] is not None and second[0] is not None and not torch.equal(first[0], second[0])
    workers.close()


class FailingError(Exception):
    pass


def working(fail: set[int] | None = None, slow: float = 0.0) -> Workers:
    """Two processes whose gradient is the number of the step times their part; at some steps one fails."""
    like = [torch.zeros(2, 3), torch.zeros(1)]

    def work(step: int, part: int) -> tuple[float, list[Tensor | None]]:
        time.sleep(slow)
        if part == 1 and step in (fail or ()):
            raise FailingError(f"at step {step}")
        if part == 2 and step == 99:
            raise MemoryError("too much")
        return float(part), [torch.full((2, 3), float(part * step)), None if step == 5 else torch.ones(1)]

    return Workers(2, like, work)


def processes_of(workers: Workers) -> list[int]:
    return [member.process for member in workers.members]


def gone(processes: list[int], within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while any(Path(f"/proc/{one}").exists() for one in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = working({3})
    yield made
    made.close()


def test_losses_and_gradients_come_back_part_by_part(workers: Workers) -> None:
    for step in (1, 2, 5):
        workers.begin(step)
        (first, ours), (second, theirs) = workers.results()
        assert (first, second) == (1.0, 2.0) and ours[0] is not None and theirs[0] is not None
        assert bool((ours[0] == step).all()) and bool((theirs[0] == 2 * step).all())
        assert (ours[1] is None) == (step == 5)


def test_an_error_of_a_part_is_raised_and_ends_all(workers: Workers) -> None:
    processes = processes_of(workers)
    workers.begin(3)
    with pytest.raises(RuntimeError, match=r"at step 3 .FailingError in a part of the batch"):
        workers.results()
    assert not workers.ready and gone(processes)


def test_want_of_memory_in_a_part_is_want_of_memory() -> None:
    workers = working()
    workers.begin(99)
    with pytest.raises(MemoryError, match="too much"):
        workers.results()


def test_a_process_that_was_killed_is_named() -> None:
    workers = working()
    os.kill(processes_of(workers)[1], signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(RuntimeError, match=r"has ended, perhaps for lack of memory.*training\.threads 1"):
        workers.begin(1)
        workers.results()
    workers.close()


def test_processes_end_with_their_object() -> None:
    workers = working()
    processes = processes_of(workers)
    del workers
    gc.collect()
    assert gone(processes)


def test_ctrl_c_reaches_the_run_alone(workers: Workers) -> None:
    for process in processes_of(workers):
        os.kill(process, signal.SIGINT)
        os.kill(process, signal.SIGTERM)
    workers.begin(1)
    assert len(workers.results()) == 2


def test_an_interrupted_step_gets_new_processes() -> None:
    """Whoever stopped between the beginning of a step and its results can go on, with nothing left over from it."""
    one = experiment("dit", 2)
    step = one.make_step()
    step(1)
    update = step.update
    assert isinstance(update, ForkedStep) and update.workers is not None
    first = processes_of(update.workers)
    step.begin(2)
    step(2)
    assert processes_of(update.workers) != first and gone(first)
    other = experiment("dit", 2)
    plain = other.make_step()
    for number in (1, 2):
        plain(number)
    assert torch.equal(weights(one), weights(other))


PROGRAM = """
import os, sys, time, torch
from twoclocks.training.workers import Workers
lock = open(sys.argv[1], "w")
import fcntl
fcntl.flock(lock, fcntl.LOCK_EX)
workers = Workers(2, [torch.zeros(1)], lambda step, part: (0.0, [torch.ones(1)]))
workers.begin(1); workers.results()
print(*(member.process for member in workers.members), flush=True)
time.sleep(60)
"""


def test_processes_end_when_the_run_is_killed_and_hold_none_of_its_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        processes = [int(number) for number in run.stdout.readline().split()]
        assert len(processes) == 2
        for process in processes:
            open_files = {str(entry.readlink()) for entry in list(Path(f"/proc/{process}/fd").iterdir())}
            assert str(tmp_path / "lock") not in open_files
        run.kill()
    assert gone(processes)


def test_memory_is_shared_with_copies_and_aligned() -> None:
    like = [torch.zeros(3), torch.zeros(2, 2, dtype=torch.float64), torch.zeros(())]
    memory = shared_memory(like)
    assert [(one.shape, one.dtype) for one in memory] == [(one.shape, one.dtype) for one in like]
    assert all(one.data_ptr() % 64 == 0 for one in memory)
    process = os.fork()
    if process == 0:
        memory[1].fill_(7.0)
        os._exit(0)
    os.waitpid(process, 0)
    assert bool((memory[1] == 7).all()) and bool((memory[0] == 0).all())


def test_sharing_keeps_the_weights() -> None:
    network = nn.Linear(3, 2)
    before = {name: value.clone() for name, value in network.named_parameters()}
    share(list(network.parameters()))
    assert all(torch.equal(value, before[name]) for name, value in network.named_parameters())


def test_a_trimmed_loss_is_computed_by_one_process() -> None:
    """Which samples count depends on the whole batch."""
    one = Experiment(load_settings("demo", {**TINY, "training.threads": 3, "training.trim": 0.3}))
    assert type(one.make_step().update) is PlainStep


@pytest.mark.parametrize("chosen", [{"distinct": True}, {"order": "epochs"}])
def test_the_order_of_rows_reaches_every_kind_of_step(chosen: Mapping[str, Any]) -> None:
    for processes in (1, 2):
        settings = TrainingSettings(steps=1, batch=len(DATA), **chosen)
        network = models.create("dit", width=16, depth=1, heads=2).build(tuple(DATA.shape[1:]), 2)
        optimizer = make_optimizer(network, settings)
        step: Step = make_step(
            network, optimizer, objectives.EDM(), Shown(DATA), settings, LoopState(), processes=processes
        )
        step(1)
        assert isinstance(step.update, PlainStep) and isinstance(step.update, ForkedStep) == (processes > 1)
        assert step.update.order.rows().sort().values.tolist() == list(range(len(DATA)))
