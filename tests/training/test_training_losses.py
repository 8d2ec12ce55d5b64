"""Losses that training alone has: hidden entries, trimmed means, shifted noise; each against a slow version."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from twoclocks.core.errors import SettingError
from twoclocks.objectives import EDM, Autoregressive
from twoclocks.runs import load_settings
from twoclocks.runs.assembly import Experiment
from twoclocks.training.masked_loss import MaskedLoss, hide
from twoclocks.training.noise_curriculum import NoiseCurriculum
from twoclocks.training.step import trimmed_mean

SMALL = {"rule": {"name": "parity", "length": 24, "group": 3}, "data.n": 16, "training.batch": 8, "training.threads": 1}


def experiment(preset: str, **training: Any) -> Experiment:
    change = {f"training.{key}": value for key, value in training.items()}
    return Experiment(load_settings(preset, {**SMALL, "model": {"width": 16, "depth": 1, "heads": 2}, **change}))


def awake(made: Experiment) -> Experiment:
    """With random weights: a fresh DiT returns zeros whatever it reads."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in made.network.parameters():
            parameter.normal_(std=0.3)
    return made


@pytest.mark.parametrize("preset", ["demo", "demo-gpt", "p2-md4-rhm"])
def test_the_masked_loss_is_that_of_two_separate_calls(preset: str) -> None:
    made = awake(experiment(preset, **({"device": "cpu", "precision": "float32"} if preset.startswith("p2") else {})))
    clean = made.encode(made.train_rows)
    loss = MaskedLoss(made.objective, weight=0.5, share=0.3)
    *drawn, hidden = loss.draw(clean, torch.Generator().manual_seed(0))
    found = loss.loss_given(made.network, clean, *drawn, hidden)

    def blind(x: Tensor, *others: Any) -> Tensor:
        out: Tensor = made.network(hide(x, hidden), *others)
        return out

    plain, masked = (made.objective.loss_given(network, clean, *drawn) for network in (made.network, blind))
    assert torch.allclose(found, plain + 0.5 * masked, atol=1e-5)
    assert not torch.allclose(plain, masked, atol=1e-3)
    assert 0.2 < float(hidden.double().mean()) < 0.4


def test_hidden_entries_cannot_be_read() -> None:
    hidden = torch.tensor([[True, False, False, True]])
    image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]])  # two channels
    assert hide(image, hidden).tolist() == [[[[0.0, 2.0], [3.0, 0.0]], [[0.0, 6.0], [7.0, 0.0]]]]
    assert hide(torch.tensor([[1, 0, 1, 1]]), hidden).tolist() == [[-1, 0, 1, -1]]


@pytest.mark.parametrize("trim", [0.0, 0.1, 0.25, 0.5, 0.99])
def test_trimmed_means_leave_out_the_lowest(trim: float) -> None:
    losses = torch.rand(40, dtype=torch.float64)
    kept = sorted(losses.tolist())[int(trim * 40) :]
    assert float(trimmed_mean(losses, trim)) == pytest.approx(sum(kept) / len(kept))


def test_trimmed_samples_have_no_gradient() -> None:
    losses = torch.tensor([3.0, 1.0, 2.0, 4.0], requires_grad=True)
    trimmed_mean(losses, 0.5).backward()
    assert losses.grad is not None and losses.grad.tolist() == [0.5, 0.0, 0.0, 0.5]


def test_noise_is_shifted_as_much_as_the_step_says() -> None:
    objective = EDM(first_shift=2.0, shift_steps=10)
    loss, clean = NoiseCurriculum(objective, torch.device("cpu")), torch.zeros(6, 1, 2, 2)
    plain = objective.draw(clean, torch.Generator().manual_seed(0))
    for step, shift in [(1, 1.8), (5, 1.0), (10, 0.0), (50, 0.0)]:
        loss.begin(step)
        log_sigma, noise = loss.draw(clean, torch.Generator().manual_seed(0))
        assert torch.allclose(log_sigma, plain[0] + shift) and torch.equal(noise, plain[1])


def test_a_shift_needs_its_steps() -> None:
    with pytest.raises(SettingError, match="needs both"):
        EDM(first_shift=1.0)
    assert not Autoregressive().has_curriculum


CHANGES: list[dict[str, Any]] = [
    {"training.trim": 0.3},
    {"training.masked_loss": 1.0},
    {"data.augment": True},
    {"data.noise": 0.1},
    {"data.easier_group": 2, "data.easier_steps": 4},
    {"objective.first_shift": 1.0, "objective.shift_steps": 4},
]


def weights_after(settings: Any, first: int, last: int, state: dict[str, Tensor] | None = None) -> Experiment:
    made = Experiment(settings)
    if state is not None:
        made.load_state(first, -1, state)
    step = made.make_step()
    for number in range(first + 1, last + 1):
        step(number)
    return made


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_each_changes_training_and_continues_exactly_and_on_threads(preset: str, change: dict[str, Any]) -> None:
    if preset == "demo-gpt" and "objective.first_shift" in change:
        pytest.skip("next-token prediction has no noise levels")
    small = {**SMALL, "model": {"width": 16, "depth": 1, "heads": 2}}
    settings = load_settings(preset, {**small, **change})

    def flat(made: Experiment) -> Tensor:
        return torch.cat([p.detach().flatten() for p in made.network.parameters()])

    whole, plain = weights_after(settings, 0, 8), weights_after(load_settings(preset, small), 0, 8)
    assert not torch.allclose(flat(whole), flat(plain), atol=1e-5)
    half = weights_after(settings, 0, 3)
    state = {name: value.clone() for name, value in half.state().items()}
    assert torch.equal(flat(weights_after(settings, 3, 8, state)), flat(whole))
    shared = weights_after(load_settings(preset, {**small, **change, "training.threads": 2}), 0, 8)
    assert torch.allclose(flat(shared), flat(whole), atol=2e-4)
