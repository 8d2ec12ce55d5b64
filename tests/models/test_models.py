from __future__ import annotations

import pytest
import torch

from twoclocks import models, objectives
from twoclocks.core.errors import SettingError
from twoclocks.models.dit import sine_cosine_positions
from twoclocks.models.gpt import GPT
from twoclocks.testing import check_model
from twoclocks.testing.contracts import randomised

PUBLISHED = {  # millions of parameters at 36 bits
    ("dit", "nano"): 2.17,
    ("dit", "mini"): 16.5,
    ("dit", "S"): 32.5,
    ("dit", "B"): 129.5,
    ("gpt", "nano"): 5.3,
    ("gpt", "mini"): 10.7,
    ("gpt", "B"): 85.1,
}


@pytest.mark.parametrize(("name", "size"), PUBLISHED)
def test_published_sizes_have_their_published_parameter_counts(name: str, size: str) -> None:
    shape = (1, 6, 6) if name == "dit" else (36,)
    with torch.device("meta"):
        network = models.create(name, size=size).build(shape, 2)
    assert models.parameter_count(network) / 1e6 == pytest.approx(PUBLISHED[name, size], rel=0.01)


def test_every_published_size_is_listed() -> None:
    named = {(name, size) for name in ("dit", "gpt") for size in models.MODELS.get(name).published()}
    assert named == set(PUBLISHED)
    assert models.MODELS.get("gpt_full").published().keys() == models.MODELS.get("gpt").published().keys()


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3])
def test_dit_contract(channels: int) -> None:
    check_model(models.create("dit", width=32, depth=2, heads=2), (channels, 3, 4), 2, objectives.EDM())


@pytest.mark.slow
@pytest.mark.parametrize("symbols", [2, 5])
def test_gpt_contract(symbols: int) -> None:
    check_model(models.create("gpt", width=32, depth=2, heads=2), (12,), symbols, objectives.Autoregressive(), 150)


def test_fresh_dit_outputs_zero_so_that_the_denoiser_starts_as_the_skip() -> None:
    network = models.create("dit", width=32, depth=2, heads=2).build((1, 4, 4), 2)
    assert not bool(network(torch.randn(5, 1, 4, 4), torch.randn(5)).any())


def test_dit_positions_tell_every_pair_of_entries_apart() -> None:
    positions = sine_cosine_positions(48, 4, 6)
    distances = torch.cdist(positions, positions) + 1e3 * torch.eye(24)
    assert positions.shape == (24, 48) and float(distances.min()) > 0.1


def test_dit_output_depends_on_the_noise_label_and_on_every_entry() -> None:
    network = randomised(models.create("dit", width=32, depth=1, heads=2), (1, 2, 3), 2)
    x = torch.randn(1, 1, 2, 3, requires_grad=True)
    label = torch.zeros(1, requires_grad=True)
    network(x, label)[0, 0, 0, 0].backward()
    assert x.grad is not None and bool((x.grad != 0).all())
    assert label.grad is not None and float(label.grad.abs().sum()) > 0


def test_dit_tells_positions_apart() -> None:
    """Attention alone would treat permuted entries alike; the fixed positions must break that."""
    network = randomised(models.create("dit", width=32, depth=2, heads=2), (1, 3, 4), 2)
    x, label = torch.randn(2, 1, 3, 4), torch.zeros(2)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    network.requires_grad_(False)
    permuted = network(x.flatten(2)[:, :, order].reshape(x.shape), label).flatten(2)
    assert float((permuted - network(x, label).flatten(2)[:, :, order]).abs().max()) > 1e-3


def test_gpt_is_causal() -> None:
    network = randomised(models.create("gpt", width=32, depth=2, heads=2), (10,), 3).requires_grad_(False)
    tokens = torch.randint(3, (4, 10))
    changed = tokens.clone()
    changed[:, 6] = (changed[:, 6] + 1) % 3
    before, after = network(tokens), network(changed)
    assert torch.allclose(before[:, :6], after[:, :6], atol=1e-6)
    assert float((before[:, 6:] - after[:, 6:]).abs().amax(dim=(0, 2)).min()) > 1e-4


@pytest.mark.parametrize("pieces", [[1] * 10, [4, 1, 5], [10]])
def test_gpt_cache_gives_the_same_logits_as_one_pass(pieces: list[int]) -> None:
    network = randomised(models.create("gpt", width=32, depth=3, heads=2), (10,), 4).double()
    assert isinstance(network, GPT)
    tokens = torch.cat([torch.full((3, 1), -1), torch.randint(4, (3, 9))], dim=1)
    cache = network.new_cache()
    parts = [network(piece, cache) for piece in tokens.split(pieces, dim=1)]
    assert torch.allclose(torch.cat(parts, dim=1), network(tokens), atol=1e-10)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("dit", {"size": "huge"}),
        ("dit", {"width": 30, "heads": 2}),
        ("gpt", {"width": 30, "heads": 4}),
        ("dit", {"depth": 0}),
    ],
)
def test_impossible_sizes_are_refused(name: str, bad: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="model\\."):
        models.create(name, **bad)
