"""Processes that share a batch take the step of one process, and end with it whatever happens to either."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from twoclocks import data, models, objectives
from twoclocks.data.encodings import SignImage
from twoclocks.data.shown import Shown
from twoclocks.rules import Parity
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training import forked_step
from twoclocks.training import workers as workers_module
from twoclocks.training.forked_step import ForkedStep, divisible
from twoclocks.training.loop import LoopState, TrainingSettings, make_step
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.step import PlainStep, Step
from twoclocks.training.workers import Workers, obstacle, share, shared_memory

pytestmark = pytest.mark.skipif(bool(obstacle()), reason=f"processes are not copied here: {obstacle()}")
RULE = Parity(length=12, group=3)
DATA = SignImage().encode(RULE, data.training_set(RULE, 16))
TINY = {"model.width": 16, "model.depth": 1, "model.heads": 2, "data.n": 16}
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
    "easier rows": ("demo", {"rule.group": 4, "data.easier_group": 2, "data.easier_steps": 3}),
    "average": ("demo", {"training.average": 0.9}),
    "textbook": ("demo", {"training.kernels": "plain"}),
    "bfloat16": ("demo", {"training.precision": "bfloat16"}),
    "grammar": ("p2-rhm-small", {}),
    "masked tokens": ("p2-md4-rhm", {"training.device": "cpu", "training.precision": "float32"}),
}


def experiment(name: str, threads: int, batch: int = 7) -> Experiment:
    preset, change = CHANGES[name]
    small = {} if name == "grammar" else TINY
    more = {"training.threads": threads, "training.batch": batch}
    return Experiment(load_settings(preset, {**small, **change, **more}))


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


@pytest.mark.parametrize("name", ["dit", "dropout", "easier rows"])
def test_what_was_loaded_reaches_processes_that_run_already(name: str) -> None:
    """Weights lie in memory that all see."""
    first, other = experiment(name, 3), experiment(name, 3)
    ours, theirs = first.make_step(), other.make_step()
    for number in (1, 2):
        ours(number)
    state = {name: value.clone() for name, value in first.state().items()}
    theirs(1)
    update = theirs.update
    assert isinstance(update, ForkedStep) and update.workers is not None
    before = processes_of(update.workers)
    other.load_state(2, 0, state)
    for number in (3, 4):
        ours(number)
        theirs(number)
    assert processes_of(update.workers) == before and torch.equal(weights(other), weights(first))


def test_weights_in_new_memory_are_shared_again() -> None:
    one, other = experiment("dit", 3), experiment("dit", 3)
    ours, theirs = one.make_step(), other.make_step()
    for number in (1, 2, 3):
        for parameter in one.network.parameters():
            parameter.data = parameter.data.clone()
        ours(number)
        theirs(number)
    assert torch.equal(weights(one), weights(other))


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
    first, second = workers.results(10)
    assert first is not None and second is not None
    assert first[1][0] is not None and second[1][0] is not None and not torch.equal(first[1][0], second[1][0])
    workers.close()


class Precise(models.Network):
    """Its loss is in float64, as the sum of losses is; part of it does not depend on the weights."""

    recordable: ClassVar[bool] = True
    divisible: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        return x.double() * self.weight


def test_losses_of_parts_that_are_computed_here_are_added_to_the_own_one() -> None:
    """Recordings write the loss of every part to the same place."""
    sums = []
    for capture in (True, False):
        network, settings, state = Precise(), TrainingSettings(steps=1, batch=6, capture=capture), LoopState()
        optimizer = make_optimizer(network, settings)
        step = make_step(network, optimizer, objectives.EDM(), Shown(DATA), settings, state, processes=3)
        assert isinstance(step.update, ForkedStep)
        for number in range(1, 9):
            step(number)
            if step.update.workers is not None:
                os.kill(step.update.workers.members[0].process, signal.SIGKILL)
        sums.append(float(state.loss_sum))
    assert sums[0] == sums[1]


def test_a_copy_uses_one_core() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    workers = Workers(1, [torch.zeros(1)], lambda step, part: (float(torch.get_num_threads()), [None]))
    torch.set_num_threads(before)
    workers.begin(1)
    assert workers.results(10) == [(1.0, [None])]
    workers.close()


class FailingError(Exception):
    pass


def working(fail: int = 0, slow: float = 0.0) -> Workers:
    """Two processes whose gradient is the number of the step times their part; at one step the first fails."""
    like = [torch.zeros(2, 3), torch.zeros(1)]

    def work(step: int, part: int) -> tuple[float, list[Tensor | None]]:
        time.sleep(slow)
        if part == 1 and step == fail:
            raise FailingError(f"at step {step}")
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
    made = working(fail=3)
    yield made
    made.close()


def test_losses_and_gradients_come_back_part_by_part(workers: Workers) -> None:
    for step in (1, 2, 5):
        workers.begin(step)
        first, second = workers.results(10)
        assert first is not None and second is not None and (first[0], second[0]) == (1.0, 2.0)
        assert first[1][0] is not None and bool((first[1][0] == step).all())
        assert second[1][0] is not None and bool((second[1][0] == 2 * step).all())
        assert (first[1][1] is None) == (step == 5)


def test_a_part_that_fails_has_no_result_and_the_others_have(workers: Workers) -> None:
    processes = processes_of(workers)
    workers.begin(3)
    first, second = workers.results(10)
    assert first is None and second is not None and second[0] == 2.0
    assert not workers.ready and "FailingError: at step 3" in workers.failure and gone(processes)


def test_a_process_that_does_not_answer_is_killed() -> None:
    workers = working(slow=30.0)
    processes = processes_of(workers)
    workers.begin(1)
    begin = time.monotonic()
    assert workers.results(0.3) == [None, None]
    assert time.monotonic() - begin < 5 and "no answer" in workers.failure and gone(processes)


def test_copies_that_cannot_work_are_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another thread had held a lock when the process was copied."""
    monkeypatch.setattr(workers_module, "try_out", lambda: time.sleep(60))
    monkeypatch.setattr(workers_module, "START_SECONDS", 0.3)
    workers = working()
    assert "no answer" in workers.failure and not workers.members


def test_a_copy_that_cannot_be_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError("no more processes")

    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    monkeypatch.setattr(os, "fork", fork)
    workers = working()
    assert "no more processes" in workers.failure and not workers.members
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_nothing_is_open_after_the_end() -> None:
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    workers = working()
    assert len(os.listdir("/proc/self/fd")) > len(before)  # noqa: PTH208
    workers.close()
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def trained_with(trouble: Callable[[ForkedStep, int], None], batch: int, steps: int = 9) -> tuple[Tensor, Tensor]:
    """The weights and the sum of losses after some steps, with trouble before each."""
    one = experiment("dropout", 3, batch)
    step = one.make_step()
    assert isinstance(step.update, ForkedStep)
    for number in range(1, steps + 1):
        trouble(step.update, number)
        step(number)
    return weights(one), one.loop.loss_sum


@pytest.mark.parametrize("batch", [6, 7])
@pytest.mark.parametrize("trouble", ["killed", "failing", "stuck"])
def test_a_run_goes_on_without_a_process_that_failed(
    trouble: str, batch: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """To the bit as if nothing had happened: its part is computed here. Parts of 6 rows share a recording."""
    monkeypatch.setattr(forked_step, "PATIENCE", (1.0, 0.0))
    expected, run_here = trained_with(lambda step, number: None, batch), os.getpid()

    def cause(step: ForkedStep, number: int) -> None:
        if number != 3 or step.workers is None:
            return
        member = step.workers.members[1]
        if trouble == "killed":
            os.kill(member.process, signal.SIGKILL)
            time.sleep(0.1)
        elif trouble == "stuck":
            os.kill(member.process, signal.SIGSTOP)
        else:
            os.close(member.orders)  # its end of work
            os.dup2(os.open(os.devnull, os.O_WRONLY), member.orders)

    found = trained_with(cause, batch)
    assert os.getpid() == run_here and all(map(torch.equal, found, expected))
    assert "training.threads: a process that computed a part of each batch failed" in caplog.text


def test_an_error_of_a_part_has_its_own_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised here, where it can be handled like that of one process."""
    one = experiment("dit", 2)
    step, real = one.make_step(), ForkedStep.part

    def part(self: ForkedStep, place: int) -> Tensor:
        if place == 1:
            raise FloatingPointError("a part is not finite")
        return real(self, place)

    monkeypatch.setattr(ForkedStep, "part", part)
    with pytest.raises(FloatingPointError, match="a part is not finite"):
        step(1)


def test_a_loss_that_is_not_finite_reaches_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one = experiment("dit", 2)
    step, real = one.make_step(), ForkedStep.part
    monkeypatch.setattr(ForkedStep, "part", lambda self, place: real(self, place) * (float("nan") if place else 1.0))
    step(1)
    assert bool(one.loop.loss_sum.isnan())


def test_every_process_finishes_the_gradients_of_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fused form may hold gradients back until it is asked for them."""
    one, other = (experiment("textbook", processes) for processes in (1, 2))

    class Form:
        def __call__(self, network: models.Network, *inputs: Any, **named: Any) -> Tensor:
            self.network = network
            out: Tensor = network.forward(*inputs, **named)
            return out

        def finish_gradients(self) -> None:
            for parameter in self.network.parameters():
                if parameter.grad is not None:
                    parameter.grad *= 0.5  # Adam's first step would not show it

        def weights_changed(self) -> None: ...

    for made in (one, other):
        made.network.fused = Form()
        made.make_step()(1)
    for mine, theirs in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None and torch.allclose(mine.grad, theirs.grad, atol=1e-6)


def test_a_core_is_used_once() -> None:
    """Where a step is divided among processes, operations are not divided; elsewhere they are."""
    experiment("dit", 3)
    assert torch.get_num_threads() == 1
    workers = Workers(1, [torch.zeros(1)], lambda step, part: (float(torch.get_num_threads()), [None]))
    workers.begin(1)
    (result,) = workers.results(10)
    assert result is not None and result[0] == 1
    workers.close()
    try:
        one = Experiment(load_settings("demo", {**TINY, "training.threads": 2, "training.trim": 0.3}))
        assert type(one.make_step().update) is PlainStep and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_networks_of_others_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their class has to say that it changes nothing in ``forward``; a subclass says so again."""

    class Inherits(type(models.create("gpt", width=16, depth=1, heads=1).build((4,), 2))):  # type: ignore[misc]
        pass

    network = models.create("gpt", width=16, depth=1, heads=1).build((4,), 2)
    assert divisible(network) and not divisible(Choosy())
    network.__class__ = Inherits
    assert not divisible(network)
    network.__class__ = Inherits.__mro__[1]
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert obstacle() == "an accelerator is visible" and not divisible(network)


def test_other_threads_do_not_copy_the_process() -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(obstacle()))
    thread.start()
    thread.join()
    assert found == ["not in the main thread"]


def test_processes_end_with_their_object() -> None:
    workers = working()
    processes = processes_of(workers)
    del workers
    gc.collect()
    assert gone(processes)


def test_ctrl_c_reaches_the_run_alone(workers: Workers) -> None:
    for process in processes_of(workers):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process, number)
    workers.begin(1)
    assert None not in workers.results(10)


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
workers.begin(1); workers.results(10)
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
    like = [torch.zeros(3), torch.zeros(2, 2, dtype=torch.float64), torch.zeros(()), torch.zeros(0, 4)]
    memory = shared_memory(like)
    assert [(one.shape, one.dtype) for one in memory] == [(one.shape, one.dtype) for one in like]
    assert all(one.data_ptr() % 64 == 0 for one in memory if one.numel())
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
