"""What the fast paths are compared to: the textbook form of each model and loop, on the same weights and data.

Written as papers and tutorials write them: one line an equation, torch's defaults for everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.models.dit import EPSILON, DiT
from twoclocks.models.gpt import GPT
from twoclocks.objectives import EDM, Autoregressive
from twoclocks.runs.assembly import Experiment


class TextbookDiT(nn.Module):
    """The forward pass of Peebles & Xie, block by block, with the layers of ``network``."""

    def __init__(self, network: DiT) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, noise_label: Tensor) -> Tensor:
        net: Any = self.network
        tokens = net.embed(x.flatten(2).transpose(1, 2)) + net.positions
        condition = net.noise_embedding(noise_label)
        for block in net.blocks:
            parts = block.modulation(functional.silu(condition)).chunk(6, dim=1)
            shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = (part.unsqueeze(1) for part in parts)
            hidden = normalised(tokens) * (1 + scale_a) + shift_a
            tokens = tokens + gate_a * block.project(attention(block.query_key_value(hidden), block.heads))
            hidden = normalised(tokens) * (1 + scale_m) + shift_m
            tokens = tokens + gate_m * block.contract(functional.gelu(block.expand(hidden)))
        shift, scale = net.final_modulation(functional.silu(condition)).chunk(2, dim=1)
        tokens = normalised(tokens) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        out: Tensor = net.head(tokens).transpose(1, 2).reshape(x.shape)
        return out


class TextbookGPT(nn.Module):
    """The forward pass of GPT-2, without a cache, with the layers of ``network``."""

    def __init__(self, network: GPT) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor) -> Tensor:
        net: Any = self.network
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = net.token_embedding(tokens % net.token_embedding.num_embeddings) + net.position_embedding(positions)
        for block in net.blocks:
            mixed = attention(block.query_key_value(block.attention_norm(hidden)), block.heads, causal=True)
            hidden = hidden + block.project(mixed)
            hidden = hidden + block.contract(functional.gelu(block.expand(block.mlp_norm(hidden))))
        out: Tensor = net.head(net.final_norm(hidden))
        return out


def normalised(tokens: Tensor) -> Tensor:
    return functional.layer_norm(tokens, tokens.shape[-1:], eps=EPSILON)


def attention(packed: Tensor, heads: int, causal: bool = False) -> Tensor:
    n, length, triple = packed.shape
    q, k, v = packed.reshape(n, length, 3, heads, triple // (3 * heads)).permute(2, 0, 3, 1, 4).unbind(0)
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return mixed.transpose(1, 2).reshape(n, length, triple // 3)


def textbook(network: nn.Module) -> nn.Module:
    if isinstance(network, DiT):
        return TextbookDiT(network)
    if isinstance(network, GPT):
        return TextbookGPT(network)
    if getattr(network, "fusible", False):
        raise TypeError(f"no textbook form of {type(network).__name__}")
    return network  # it is written as in the textbook


def edm_loss(objective: EDM, network: nn.Module, clean: Tensor) -> Tensor:
    """Karras et al., table 1, line by line."""
    sigma = (
        (torch.randn(len(clean), 1, 1, 1, device=clean.device) * objective.log_sigma_std)
        .add(objective.log_sigma_mean)
        .exp()
    )
    data = objective.sigma_data
    weight = (sigma**2 + data**2) / (sigma * data) ** 2
    noisy = clean + torch.randn_like(clean) * sigma
    c_skip = data**2 / (sigma**2 + data**2)
    c_out = sigma * data / (sigma**2 + data**2).sqrt()
    c_in = 1 / (data**2 + sigma**2).sqrt()
    denoised = c_skip * noisy + c_out * network(c_in * noisy, sigma.log().flatten() / 4)
    loss: Tensor = (weight * (denoised - clean) ** 2).mean()
    return loss


def next_token_loss(objective: Autoregressive, network: nn.Module, clean: Tensor) -> Tensor:
    logits = network(objective.shifted(clean))
    return functional.cross_entropy(logits.flatten(0, 1), clean.flatten())


def plain_step(experiment: Experiment) -> Callable[[], None]:
    """One step of the loop that everybody writes first; the loss is read, as people do who want to see it."""
    settings, objective = experiment.settings.training, experiment.objective
    network, data = textbook(experiment.network), experiment.encode(experiment.train_rows)
    cls = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    optimizer = cls(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)

    def step() -> None:
        batch = data[torch.randint(len(data), (settings.batch,), device=data.device)]
        if isinstance(objective, EDM):
            loss = edm_loss(objective, network, batch)
        else:
            assert isinstance(objective, Autoregressive)
            loss = next_token_loss(objective, network, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


@torch.no_grad()
def plain_samples(experiment: Experiment) -> Tensor:
    """Samples of the run's noise by the textbook form: Heun's sampler, or the whole prefix again for every token."""
    network, noise, objective = textbook(experiment.network), experiment.noise, experiment.objective
    if isinstance(objective, EDM):
        return heun(objective, network, noise)
    assert isinstance(objective, Autoregressive)
    tokens = torch.full((len(noise), 1), -1, dtype=torch.int64, device=noise.device)
    for place in range(noise.shape[1]):
        chances = functional.softmax(network(tokens)[:, -1] / objective.temperature, dim=-1)
        symbol = (noise[:, place, None] >= chances.cumsum(dim=-1)[:, :-1]).sum(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, symbol], dim=1)
    return tokens[:, 1:]


def heun(objective: EDM, network: nn.Module, noise: Tensor) -> Tensor:
    """Karras et al., algorithm 1, without churn."""
    denoise = objective.denoiser(network)
    sigmas = objective.sampler_sigmas().to(noise)
    x = noise * sigmas[0]
    for now, after in itertools.pairwise(sigmas):
        slope = (x - denoise(x, now.expand(len(x)))) / now
        ahead = x + (after - now) * slope
        if after > 0:
            slope_ahead = (ahead - denoise(ahead, after.expand(len(x)))) / after
            ahead = x + (after - now) * (slope + slope_ahead) / 2
        x = ahead
    return x
