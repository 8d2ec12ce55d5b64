"""Forward passes against slow versions: one sample, one token and one head at a time, in double precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from twoclocks import models
from twoclocks.kernels.registry import MixedForm
from twoclocks.models import Network
from twoclocks.models.noise_features import noise_features
from twoclocks.testing.contracts import randomised


def layer_norm(token: Tensor, eps: float) -> Tensor:
    centred = token - token.mean()
    return centred / (centred.square().mean() + eps).sqrt()


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def attention(tokens: list[Tensor], block: Any, causal: bool) -> list[Tensor]:
    width = len(tokens[0])
    packed = [block.query_key_value.weight @ token + block.query_key_value.bias for token in tokens]
    size, mixed = width // block.heads, [torch.zeros(width, dtype=torch.float64) for _ in tokens]
    for head in range(block.heads):
        part = slice(head * size, (head + 1) * size)
        for here in range(len(tokens)):
            seen = range(here + 1) if causal else range(len(tokens))
            scores = torch.stack(
                [packed[here][:width][part] @ packed[j][width : 2 * width][part] / math.sqrt(size) for j in seen]
            )
            weights = scores.exp() / scores.exp().sum()
            mixed[here][part] = sum(w * packed[j][2 * width :][part] for w, j in zip(weights, seen, strict=True))
    return [block.project.weight @ one + block.project.bias for one in mixed]


def mlp(token: Tensor, block: Any) -> Tensor:
    return block.contract.weight @ gelu(block.expand.weight @ token + block.expand.bias) + block.contract.bias


def registers(network: Any) -> list[Tensor]:
    return [] if network.registers.vectors is None else list(network.registers.vectors)


def slow_dit(network: Any, image: Tensor, label: Tensor) -> Tensor:
    """One image (channels, rows, columns): Peebles & Xie 2023, Figure 3, right; registers are further tokens."""
    tokens = [
        network.embed.weight @ entry + network.embed.bias + place
        for entry, place in zip(image.flatten(1).T, network.positions, strict=True)
    ]
    length = len(tokens)
    tokens += registers(network)
    omega = network.noise_embedding.omega
    features = torch.cat([(label * omega).cos(), (label * omega).sin()])
    condition = network.noise_embedding.layers(features)
    condition = condition * torch.sigmoid(condition)
    for block in network.blocks:
        parts = (block.modulation.weight @ condition + block.modulation.bias).split(len(condition))
        for branch, (shift, scale, gate) in enumerate((parts[:3], parts[3:])):
            hidden = [layer_norm(token, 1e-6) * (1 + scale) + shift for token in tokens]
            update = attention(hidden, block, causal=False) if branch == 0 else [mlp(one, block) for one in hidden]
            tokens = [token + gate * more for token, more in zip(tokens, update, strict=True)]
    shift, scale = (network.final_modulation.weight @ condition + network.final_modulation.bias).split(len(condition))
    out = [
        network.head.weight @ (layer_norm(token, 1e-6) * (1 + scale) + shift) + network.head.bias
        for token in tokens[:length]
    ]
    return torch.stack(out, dim=1).reshape(image.shape)


def slow_gpt(network: Any, symbols: list[int], causal: bool, offset: Tensor | float = 0.0) -> Tensor:
    """One sequence: GPT-2 with pre-norm blocks; registers stand in front of it if it is causal, else behind it."""
    table, places = network.token_embedding.weight, network.position_embedding.weight
    tokens = [table[symbol] + places[place] + offset for place, symbol in enumerate(symbols)]
    tokens = [*registers(network), *tokens] if causal else [*tokens, *registers(network)]
    for block in network.blocks:
        norm = block.attention_norm
        hidden = [layer_norm(token, norm.eps) * norm.weight + norm.bias for token in tokens]
        tokens = [token + more for token, more in zip(tokens, attention(hidden, block, causal), strict=True)]
        norm = block.mlp_norm
        tokens = [token + mlp(layer_norm(token, norm.eps) * norm.weight + norm.bias, block) for token in tokens]
    norm, first = network.final_norm, len(registers(network)) if causal else 0
    read = tokens[first : first + len(symbols)]
    return torch.stack(
        [network.head.weight @ (layer_norm(token, norm.eps) * norm.weight + norm.bias) for token in read]
    )


def build(name: str, shape: tuple[int, ...], symbols: int, registers: int) -> Network:
    chosen = models.create(name, width=12, depth=2, heads=3, registers=registers)
    return randomised(chosen, shape, symbols).double().requires_grad_(False)


@pytest.mark.parametrize("count", [0, 2])
def test_dit_is_the_published_network(count: int) -> None:
    network = build("dit", (2, 2, 3), 2, count)
    x, label = torch.randn(3, 2, 2, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    slow = torch.stack([slow_dit(network, *one) for one in zip(x, label, strict=True)])
    assert torch.allclose(network(x, label), slow, atol=1e-6)  # Fourier features are made in float32
    assert float(slow.std()) > 0.1


@pytest.mark.parametrize("count", [0, 2])
def test_gpt_is_the_published_network(count: int) -> None:
    network = build("gpt", (5,), 3, count)
    tokens = torch.tensor([[-1, 0, 2, 1, 1], [-1, 2, 2, 0, 1]])
    slow = torch.stack([slow_gpt(network, [3 if t < 0 else t for t in row], causal=True) for row in tokens.tolist()])
    assert torch.allclose(network(tokens), slow, atol=1e-10)


@pytest.mark.parametrize("count", [0, 2])
def test_the_full_gpt_reads_all_positions_and_the_noise(count: int) -> None:
    network: Any = build("gpt_full", (4,), 3, count)
    tokens, noise = torch.tensor([[-1, 0, 2, 1], [2, 2, -1, 0]]), torch.tensor([0.2, 0.7])
    offsets = network.noise(noise_features(noise).double())
    rows = zip(tokens.tolist(), offsets, strict=True)
    slow = torch.stack([slow_gpt(network, [3 if t < 0 else t for t in row], False, offset) for row, offset in rows])
    assert torch.allclose(network(tokens, noise), slow, atol=1e-10)
    assert network.new_cache() is None


def test_mixed_precision_keeps_what_meets_data_and_output_in_float32() -> None:
    """Large products are rounded to bfloat16; embedding, noise level and head are not."""
    network = randomised(models.create("dit", width=16, depth=1, heads=2), (1, 2, 3), 2)
    kinds: dict[str, torch.dtype] = {}
    for name, layer in network.named_modules():
        if isinstance(layer, torch.nn.Linear):
            layer.register_forward_hook(lambda _layer, _given, out, name=name: kinds.__setitem__(name, out.dtype))
    x, label = torch.randn(3, 1, 2, 3), torch.randn(3)
    exact = network(x, label).detach()
    assert set(kinds.values()) == {torch.float32}
    network.fused = MixedForm()
    mixed = network(x, label).detach()
    full = {name for name, kind in kinds.items() if kind == torch.float32}
    assert full == {"embed", "noise_embedding.layers.0", "noise_embedding.layers.2", "head"}
    assert mixed.dtype == torch.float32 and 0 < float((mixed - exact).abs().max()) < 0.05 * float(exact.abs().max())
