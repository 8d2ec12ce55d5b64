"""Register tokens: they take part in attention, are not read out, and change nothing where there are none.

Outputs are held against a slow version in test_textbook.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from twoclocks import models, objectives
from twoclocks.core.config import to_mapping
from twoclocks.core.errors import SettingError
from twoclocks.models.gpt import GPT
from twoclocks.objectives.base import sample
from twoclocks.objectives.masked import Masked
from twoclocks.testing import check_model
from twoclocks.testing.contracts import randomised

SHAPES: dict[str, tuple[int, ...]] = {"dit": (2, 2, 3), "gpt": (6,), "gpt_full": (6,)}
SYMBOLS = 3
NAMES = list(SHAPES)


def settings(name: str, registers: int, **change: object) -> models.ModelSettings:
    return models.create(name, **{"width": 12, "depth": 2, "heads": 3, "registers": registers, **change})


def inputs(name: str, n: int = 4) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    if name == "dit":
        return torch.randn((n, *SHAPES[name]), generator=generator), torch.randn(n, generator=generator)
    tokens = torch.randint(-1, SYMBOLS, (n, *SHAPES[name]), generator=generator)
    return (tokens,) if name == "gpt" else (tokens, torch.rand(n, generator=generator))


def fresh(chosen: models.ModelSettings, shape: tuple[int, ...]) -> models.Network:
    torch.manual_seed(5)
    return chosen.build(shape, SYMBOLS)


@pytest.mark.parametrize("name", NAMES)
def test_the_other_weights_do_not_depend_on_registers(name: str) -> None:
    """They are drawn last; without any there is no parameter and no random number is drawn."""
    plain, three = (fresh(settings(name, count), SHAPES[name]) for count in (0, 3))
    assert set(three.state_dict()) - set(plain.state_dict()) == {"registers.vectors"}
    assert all(torch.equal(value, three.state_dict()[key]) for key, value in plain.state_dict().items())
    fresh(settings(name, 3), SHAPES[name])
    after = torch.rand(1)
    fresh(settings(name, 0), SHAPES[name])
    torch.randn(3, 12)
    assert torch.equal(after, torch.rand(1))


def test_registers_start_small_and_random() -> None:
    vectors = fresh(settings("dit", 200, width=120), SHAPES["dit"]).state_dict()["registers.vectors"]
    assert vectors.shape == (200, 120) and float(vectors.std()) == pytest.approx(0.02, rel=0.03)
    assert abs(float(vectors.mean())) < 4 * 0.02 / vectors.numel() ** 0.5


def test_runs_without_registers_keep_their_identity() -> None:
    assert "registers" not in to_mapping(settings("gpt", 0)) and to_mapping(settings("gpt", 2))["registers"] == 2
    assert settings("gpt", 0).title == "GPT 12×2" and settings("gpt", 1).title == "GPT 12×2, 1 register"
    assert settings("dit", 4, dropout=0.1).title == "DiT 12×2, 4 registers, dropout 0.1"
    for bad in (-1, 10**6):
        with pytest.raises(SettingError, match=r"model\.registers"):
            settings("dit", bad)


@pytest.mark.parametrize("name", NAMES)
def test_registers_take_part_get_gradients_and_are_not_read_out(name: str) -> None:
    network: Any = randomised(settings(name, 3), SHAPES[name], SYMBOLS)
    plain = randomised(settings(name, 0), SHAPES[name], SYMBOLS)
    given = inputs(name)
    before = network(*given)
    assert before.shape == plain(*given).shape
    before.square().sum().backward()
    assert bool((network.registers.vectors.grad.abs().sum(dim=1) > 0).all())
    with torch.no_grad():
        network.registers.vectors.add_(torch.randn(3, 12))
        changed = (network(*given) - before).flatten(1).abs()
    assert float(changed.amin(dim=0).max()) > 1e-3


def test_gpt_with_registers_is_causal() -> None:
    network = randomised(settings("gpt", 3), (10,), SYMBOLS).requires_grad_(False)
    tokens = torch.randint(SYMBOLS, (4, 10))
    changed = tokens.clone()
    changed[:, 6] = (changed[:, 6] + 1) % SYMBOLS
    before, after = network(tokens), network(changed)
    assert torch.allclose(before[:, :6], after[:, :6], atol=1e-6)
    assert float((before[:, 6:] - after[:, 6:]).abs().amax(dim=(0, 2)).min()) > 1e-4


@pytest.mark.parametrize("pieces", [[1] * 10, [4, 1, 5], [10]])
@pytest.mark.parametrize("registers", [1, 3])
def test_the_cache_reads_registers_once_and_gives_the_logits_of_one_pass(pieces: list[int], registers: int) -> None:
    network = randomised(settings("gpt", registers), (10,), 4).double()
    assert isinstance(network, GPT)
    tokens = torch.cat([torch.full((3, 1), -1), torch.randint(4, (3, 9))], dim=1)
    cache = network.new_cache()
    parts = [network(piece, cache) for piece in tokens.split(pieces, dim=1)]
    assert [part.shape[1] for part in parts] == pieces
    assert torch.allclose(torch.cat(parts, dim=1), network(tokens), atol=1e-10)
    assert cache.filled == cache.length == 10 + registers


def test_samples_with_a_cache_are_those_without() -> None:
    network = randomised(settings("gpt", 3), (10,), 4).double()
    noise = torch.rand(50, 10, generator=torch.Generator().manual_seed(0))
    objective = objectives.Autoregressive()
    cached, whole = sample(objective, network, noise), sample(objective, network.forward, noise)  # which has no cache
    assert torch.equal(cached, whole) and len(cached.unique(dim=0)) > 25


def test_registers_count_as_tokens_in_memory() -> None:
    assert settings("gpt", 6).activations((6,), 2) == 2 * settings("gpt", 0).activations((6,), 2)
    patched = [settings("dit", count, patch=2).activations((3, 4, 4), 2) for count in (0, 4)]
    assert patched[1] == 2 * patched[0] == 12 * 12 * 2 * 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "objective", "steps"),
    [
        ("dit", objectives.EDM(), 400),
        ("gpt", objectives.Autoregressive(), 200),
        ("gpt_full", Masked(sampler_levels=9), 500),
    ],
)
def test_contract_with_registers_and_dropout(name: str, objective: objectives.Objective, steps: int) -> None:
    shape, symbols = ((1, 3, 4), 2) if name == "dit" else ((8,), 5)
    check_model(settings(name, 2, width=32, heads=2, dropout=0.05), shape, symbols, objective, steps)
