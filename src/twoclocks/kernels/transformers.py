"""Fused forward passes of the transformers: the textbook's equations, written with the operations of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from twoclocks.kernels.operations import Operations, Update
from twoclocks.kernels.registry import Stacks, fused_forward
from twoclocks.models.dit import EPSILON, DiT, from_patches, to_patches
from twoclocks.models.gpt import GPT, Cache, cached_attention
from twoclocks.models.gpt_full import FullGPT


def modulation_layers(network: DiT) -> Stacks:
    """All layers that read the noise level."""
    return [[*(block.modulation for block in network.blocks), network.final_modulation]]  # type: ignore[list-item]


@fused_forward(DiT, stacks=modulation_layers)
def dit_forward(network: DiT, do: Operations, x: Tensor, noise_label: Tensor) -> Tensor:
    tokens = do.embed(to_patches(x, network.patch), network.embed, network.positions)
    condition = functional.silu(network.noise_embedding(noise_label))
    vectors = iter(do.modulations(condition, modulation_layers(network)[0]))
    update = None
    for block in network.blocks:
        tokens, update = dit_block(block, do, tokens, update, vectors)
    _, normed = do.modulate(tokens, update, next(vectors), next(vectors), EPSILON)
    return from_patches(do.read_out(normed, network.head), network.patch, x.shape)


def dit_block(
    block: Any, do: Operations, tokens: Tensor, update: Update | None, vectors: Iterator[Tensor]
) -> tuple[Tensor, Update]:
    """Tokens after all but the last update, and that update; shift, scale and gate of each branch come in order."""
    shift, scale, gate = (next(vectors) for _ in range(3))
    tokens, normed = do.modulate(tokens, update, shift, scale, EPSILON)
    update = do.update(do.attend(normed, block.query_key_value, block.heads), block.project, gate)
    shift, scale, gate = (next(vectors) for _ in range(3))
    tokens, normed = do.modulate(tokens, update, shift, scale, EPSILON)
    return tokens, do.update(do.activate(normed, block.expand), block.contract, gate)


@fused_forward(GPT)
def gpt_forward(network: GPT, do: Operations, tokens: Tensor, cache: Cache | None = None) -> Tensor:
    hidden = gpt_embed(network, do, tokens, 0 if cache is None else cache.filled)
    out = gpt_blocks(network, do, hidden, cache)
    if cache is not None:
        cache.filled += tokens.shape[1]
    return out


@fused_forward(FullGPT)
def full_gpt_forward(network: FullGPT, do: Operations, tokens: Tensor, noise: Any = None) -> Tensor:
    hidden = gpt_embed(network, do, tokens, 0)
    if network.noise is not None:
        hidden = hidden + network.noise_offset(noise).to(hidden.dtype)  # type: ignore[union-attr]
    return gpt_blocks(network, do, hidden)


def gpt_embed(network: GPT, do: Operations, tokens: Tensor, start: int) -> Tensor:
    positions = network.position_embedding.weight[start : start + tokens.shape[1]]
    table: nn.Embedding = network.token_embedding
    return do.look_up(tokens % table.num_embeddings, table, positions)


def gpt_blocks(network: GPT, do: Operations, hidden: Tensor, cache: Cache | None = None) -> Tensor:
    """Logits of embedded tokens (n, t, width)."""
    update: Update | None = None
    blocks: Sequence[Any] = network.blocks  # type: ignore[assignment]
    for index, block in enumerate(blocks):
        hidden, normed = do.normalise(hidden, update, block.attention_norm)
        if cache is None:
            mixed = do.attend(normed, block.query_key_value, block.heads, block.causal)
        else:
            mixed = cached_attention(do.linear(normed, block.query_key_value), block.heads, cache, index)
        hidden, normed = do.normalise(hidden, do.update(mixed, block.project), block.mlp_norm)
        update = do.update(do.activate(normed, block.expand), block.contract)
    return do.read_out(do.normalise(hidden, update, network.final_norm)[1], network.head)
