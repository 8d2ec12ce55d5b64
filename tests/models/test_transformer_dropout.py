"""Dropout of the transformers: off in evaluation, new at every step, and independent of threads and interruptions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import SMALL_MODEL, TINY
from torch import Tensor

from twoclocks import models, objectives
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import SettingError
from twoclocks.data.shown import Shown
from twoclocks.models.dropout import RowDropout
from twoclocks.objectives.base import sample
from twoclocks.objectives.masked import Masked
from twoclocks.runs import Progress, load_settings, run
from twoclocks.runs.assembly import Experiment
from twoclocks.testing.contracts import randomised
from twoclocks.training.loop import LoopState, TrainingSettings, make_step, train
from twoclocks.training.optimizer import make_optimizer
from twoclocks.training.workers import obstacle

SHAPES: dict[str, tuple[int, ...]] = {"dit": (1, 4, 4), "gpt": (16,), "gpt_full": (16,)}
NAMES = list(SHAPES)
RATE = 0.3


def settings(name: str, dropout: float = RATE, **change: object) -> models.ModelSettings:
    return models.create(name, **{"width": 32, "depth": 2, "heads": 2, "dropout": dropout, **change})


def inputs(name: str, n: int = 8, seed: int = 1) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    if name == "dit":
        return torch.randn((n, *SHAPES[name]), generator=generator), torch.randn(n, generator=generator)
    tokens = torch.randint(-1, 3, (n, *SHAPES[name]), generator=generator)
    return (tokens,) if name == "gpt" else (tokens, torch.rand(n, generator=generator))


class Masks:
    """What every dropout of a network keeps, in the order of the calls."""

    def __init__(self, network: models.Network) -> None:
        self.network, self.seen = network, list[Tensor]()
        for module in network.modules():
            if isinstance(module, RowDropout):
                module.register_forward_hook(lambda _, given, out: self.seen.append(out.detach() != 0))

    def __call__(self, *given: Tensor) -> Tensor:
        """All masks (layers, n, tokens, width) of one forward pass."""
        self.seen.clear()
        self.network(*given)
        return torch.stack(self.seen)


def independent(one: Tensor, other: Tensor) -> bool:
    """Whether two masks are uncorrelated; equal ones have correlation 1."""
    centred = [mask.double() - (1 - RATE) for mask in (one, other)]
    return abs(float((centred[0] * centred[1]).mean())) / (RATE * (1 - RATE)) < 5 / one.numel() ** 0.5


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_is_that_of_a_network_without_dropout(name: str) -> None:
    dropping, plain = (randomised(settings(name, rate), SHAPES[name], 3).requires_grad_(False) for rate in (RATE, 0.0))
    assert dropping.state_dict().keys() == plain.state_dict().keys()
    given = inputs(name)
    assert float((dropping(*given) - plain(*given)).abs().max()) > 1e-3
    assert torch.equal(dropping.eval()(*given), plain(*given))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("registers", [0, 2])
def test_masks_have_the_rate_and_differ_between_rows_and_layers(name: str, registers: int) -> None:
    network = randomised(settings(name, registers=registers), SHAPES[name], 3)
    masks = Masks(network)(*inputs(name))
    assert masks.shape == (4, 8, 16 + registers, 32)  # two blocks, each with attention and MLP
    spread = 4 * (RATE * (1 - RATE) / masks[0].numel()) ** 0.5
    assert all(abs(float(mask.double().mean()) - (1 - RATE)) < spread for mask in masks)
    assert all(independent(masks[i], masks[j]) for i in range(4) for j in range(i))
    assert all(independent(masks, masks.roll(1, dims=axis)) for axis in (1, 2, 3))


@pytest.mark.parametrize("name", NAMES)
def test_kept_updates_are_scaled_so_that_the_mean_stays(name: str) -> None:
    network: Any = randomised(settings(name), SHAPES[name], 3)
    seen: list[tuple[Tensor, Tensor]] = []
    for part in ("attention_dropout", "mlp_dropout"):
        hook = getattr(network.blocks[1], part).register_forward_hook
        hook(lambda _, given, out: seen.append((given[0].detach(), out.detach())))
    network(*inputs(name))
    assert len(seen) == 2
    for given, out in seen:
        assert torch.allclose(out, torch.where(out == 0, 0, given / (1 - RATE)))


@pytest.mark.parametrize("name", NAMES)
def test_each_training_step_has_its_own_masks_on_the_same_rows(name: str) -> None:
    """A causal network reads the same rows again; the others get new noise."""
    network = randomised(settings(name), SHAPES[name], 3)
    masks = Masks(network)

    def at(step: int) -> Tensor:
        network.begin_step(step)
        return masks(*inputs(name, seed=step if name == "dit" else 1))

    first, second = at(1), at(2)
    assert independent(first, second) and torch.equal(at(1), first)


@pytest.mark.parametrize("name", ["gpt", "gpt_full"])
def test_a_loop_that_names_no_step_still_gets_new_masks(name: str) -> None:
    network = randomised(settings(name), SHAPES[name], 3)
    masks, given = Masks(network), inputs(name)
    for optimizer in (torch.optim.Adam(network.parameters(), 1e-5), torch.optim.SGD(network.parameters(), 1e-3)):
        before = masks(*given)
        assert torch.equal(masks(*given), before)  # nothing changed
        optimizer.zero_grad()
        network(*given).square().mean().backward()
        optimizer.step()
        assert independent(before, masks(*given))


def test_the_full_gpt_has_other_masks_at_another_noise_level() -> None:
    network = randomised(settings("gpt_full", told_noise=False), SHAPES["gpt_full"], 3)
    network.begin_step(1)
    tokens, noise = inputs("gpt_full")
    masks = Masks(network)
    assert independent(masks(tokens, noise), masks(tokens, noise + 0.01))


def test_samples_of_a_causal_network_are_drawn_without_dropout_even_in_training_mode() -> None:
    dropping, plain = (randomised(settings("gpt", rate), (16,), 3) for rate in (RATE, 0.0))
    noise = torch.rand(20, 16, generator=torch.Generator().manual_seed(0))
    objective = objectives.Autoregressive()
    assert dropping.training and torch.equal(sample(objective, dropping, noise), sample(objective, plain, noise))


def step_masks(seed: int, *numbers: int) -> list[Tensor]:
    """The masks of some steps of the training loop, on a training set of one row."""
    chosen = TrainingSettings(steps=9, batch=1, seed=seed)
    network = randomised(settings("gpt"), (16,), 2)
    data = torch.randint(2, (1, 16), generator=torch.Generator().manual_seed(0))
    step = make_step(
        network, make_optimizer(network, chosen), objectives.Autoregressive(), Shown(data), chosen, LoopState()
    )
    masks, found = Masks(network), []
    for number in numbers:
        masks.seen.clear()
        step(number)
        found.append(torch.stack(masks.seen))
    return found


def test_masks_of_the_training_loop_depend_on_seed_and_step_alone() -> None:
    first, second, fifth = step_masks(0, 1, 2, 5)
    assert independent(first, second) and independent(second, fifth) and independent(first, *step_masks(1, 1))
    assert torch.equal(fifth, *step_masks(0, 5))  # of a network with other weights


def losses(name: str, processes: int, steps: int = 12, mode: str = "train") -> tuple[list[float], Tensor]:
    """The loss of every step; the network comes from its owner in a mode of theirs."""
    torch.manual_seed(0)
    network = settings(name).build(SHAPES[name], 2)
    generator = torch.Generator().manual_seed(3)
    symbols = torch.randint(2, (16, *SHAPES[name]), generator=generator)
    data, objective = (symbols.float(), objectives.EDM()) if name == "dit" else (symbols, objectives.Autoregressive())
    chosen = TrainingSettings(steps=steps, batch=8, learning_rate=1e-3)
    found: list[float] = []
    getattr(network, mode)()
    train(
        network,
        make_optimizer(network, chosen),
        objective if name != "gpt_full" else Masked().fitted(2),
        Shown(data),
        chosen,
        tuple(range(steps + 1)),
        lambda step, loss: found.append(loss),
        processes=processes,
    )
    return found[1:], torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("name", NAMES)
def test_processes_share_the_masks_of_a_step(name: str) -> None:
    """Rounding differs with the number of processes; masks that depended on it would change losses by percents."""
    (one, weights), (two, shared) = losses(name, 1), losses(name, 2)
    assert two == pytest.approx(one, rel=1e-4) and torch.allclose(weights, shared, atol=1e-3)


@pytest.mark.parametrize("processes", [1, 2])
def test_all_processes_drop_whatever_the_mode_was_before(processes: int) -> None:
    assert losses("gpt", processes, 3, "eval")[0] == losses("gpt", processes, 3)[0]


@pytest.mark.skipif(bool(obstacle()), reason=f"processes are not copied here: {obstacle()}")
def test_a_process_that_was_copied_during_an_evaluation_drops_too() -> None:
    def slopes(processes: int) -> Tensor:
        torch.manual_seed(0)
        chosen = TrainingSettings(steps=1, batch=8)
        network = settings("gpt").build((16,), 2)
        data = torch.randint(2, (16, 16), generator=torch.Generator().manual_seed(0))
        optimizer = make_optimizer(network, chosen)
        step = make_step(
            network, optimizer, objectives.Autoregressive(), Shown(data), chosen, LoopState(), processes=processes
        )
        network.eval()
        step.begin(1)
        network.train()
        step.update()
        return torch.cat([parameter.grad.flatten() for parameter in network.parameters() if parameter.grad is not None])

    assert torch.allclose(slopes(2), slopes(1), atol=1e-6)


@pytest.mark.parametrize("preset", ["demo", "demo-gpt"])
def test_a_run_in_many_attempts_is_the_same_run(preset: str, tmp_path: Path) -> None:
    model = {**SMALL_MODEL, "dropout": 0.2, "registers": 2}
    chosen = load_settings(preset, {**TINY, "model": model, "training": {**TINY["training"], "threads": 2}})

    whole = run(chosen, tmp_path / "whole")
    for stop in (7, 31):
        with pytest.raises(KeyboardInterrupt):
            run(chosen, tmp_path / "parts", partial(stopping, stop), checkpoint_seconds=0)
    parts = run(chosen, tmp_path / "parts")
    assert parts.status["attempts"][-1]["from_step"] > 0
    for name in ("metrics.jsonl", "checkpoints/step-000000060.safetensors"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()


def stopping(stop: int, progress: Progress) -> None:
    if progress.step >= stop:
        raise KeyboardInterrupt


def test_evaluation_of_a_run_does_not_drop() -> None:
    made = Experiment(load_settings("demo-gpt", {**TINY, "model": {**SMALL_MODEL, "dropout": 0.5}}))
    plain = Experiment(load_settings("demo-gpt", {**TINY, "model": SMALL_MODEL}))
    found: list[dict[str, float]] = []
    for one in (made, plain):
        with pytest.raises(KeyboardInterrupt):
            one.train(lambda step, loss, one=one: found.append(one.losses()), on_step=interrupt)  # type: ignore[misc]
    assert found[0] == pytest.approx(found[1], rel=1e-5)  # of the initial weights; forms differ in rounding


def interrupt(step: int) -> None:
    raise KeyboardInterrupt


def test_runs_without_dropout_keep_their_identity() -> None:
    assert "dropout" not in to_mapping(settings("gpt", 0.0)) and to_mapping(settings("gpt"))["dropout"] == RATE
    assert settings("gpt_full", 0.0).title == "full GPT 32×2" and settings("gpt").title == "GPT 32×2, dropout 0.3"
    for bad in (-0.1, 1.0):
        with pytest.raises(SettingError, match=r"model\.dropout"):
            settings("dit", bad)
