"""The update of an average: the same on flat memory, captured without the host, undone without a trace."""

from __future__ import annotations

import copy

import pytest
import torch

from twoclocks import models, objectives
from twoclocks.data.shown import Shown
from twoclocks.kernels.triton_operations import TritonForm
from twoclocks.models import Network
from twoclocks.training.average import Average
from twoclocks.training.loop import LoopState, TrainingSettings, make_step
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.step import PlainStep, undone

DECAY = 0.6


def averaged_pair(flat: bool) -> tuple[Network, Average]:
    torch.manual_seed(0)
    raw = models.create("gpt", width=16, depth=1, heads=2).build((6,), 2)
    other = copy.deepcopy(raw)
    if flat:
        raw.fused, other.fused = TritonForm(raw), TritonForm(other)
    return raw, Average(raw, other, DECAY)


def disturb(network: Network, seed: int) -> None:
    """Change the weights as an optimizer does: in place."""
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=stream))


def test_flat_memory_has_the_same_average_in_one_call_and_its_shadows_are_renewed() -> None:
    (plain_raw, plain), (flat_raw, flat) = averaged_pair(False), averaged_pair(True)
    assert len(flat.memory()) == 2 and len(plain.memory()) > 10
    for seed in range(20):
        for raw, average in ((plain_raw, plain), (flat_raw, flat)):
            disturb(raw, seed)
            average.update()
    form = flat.current().fused
    assert isinstance(form, TritonForm)
    for mine, other in zip(flat.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
        assert torch.equal(form.flat.view(form.flat.shadows, mine), mine.to(torch.bfloat16))


def test_the_network_is_not_touched_and_buffers_follow_it() -> None:
    raw, average = averaged_pair(False)
    raw.register_buffer("seen", torch.zeros(2))
    average.network.register_buffer("seen", torch.zeros(2))
    before = [parameter.detach().clone() for parameter in raw.parameters()]
    average.update()
    raw.seen.fill_(3.0)
    assert torch.equal(average.current().get_buffer("seen"), torch.full((2,), 3.0))
    assert all(torch.equal(now, then) for now, then in zip(raw.parameters(), before, strict=True))
    assert not any(parameter.requires_grad for parameter in average.network.parameters())
    assert not average.network.training


@pytest.mark.parametrize("steps", [0, 3])
def test_undone_steps_leave_no_trace_in_the_average(steps: int) -> None:
    raw, average = averaged_pair(False)
    settings = TrainingSettings(steps=9, batch=4, learning_rate=1e-2, average=DECAY)
    data, state = torch.randint(0, 2, (8, 6)), LoopState()
    optimizer = make_optimizer(raw, settings)
    objective = objectives.create("autoregressive")
    step = make_step(raw, optimizer, objective, Shown(data), settings, state, average=average).update
    assert isinstance(step, PlainStep)
    for _ in range(steps):
        step()
    before = [value.clone() for value in average.memory()]
    with undone(step):
        step()
        assert not torch.equal(average.updates, before[0]) and not torch.equal(average.weights[0], before[1])
    assert all(torch.equal(now, then) for now, then in zip(average.memory(), before, strict=True))


def test_an_update_never_waits_for_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph cannot contain it otherwise: on the meta device, whatever reads a value raises."""
    for flat in (False, True):
        _, average = averaged_pair(flat)
        average.updates = average.updates.to("meta")
        average.weights = [value.to("meta") for value in average.weights]
        sources = [value.to("meta") for value in average.sources]
        monkeypatch.setattr(Average, "sources", sources)
        memory = average.memory()
        average.update()
        assert all(now is then for now, then in zip(average.memory(), memory, strict=True))
        monkeypatch.undo()
