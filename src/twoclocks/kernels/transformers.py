"""Fused forward passes of the transformers: the textbook's equations, written with the operations of a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from twoclocks.kernels.operations import Operations, Update
from twoclocks.kernels.registry import Stacks, fused_forward
from twoclocks.models.dit import EPSILON, DiT, from_patches, to_patches
from twoclocks.models.dropout import RowDropout, row_keys
from twoclocks.models.gpt import GPT, Cache, cached_attention
from twoclocks.models.gpt_full import FullGPT


def modulation_layers(network: DiT) -> Stacks:
    """All layers that read the noise level."""
    return [[*(block.modulation for block in network.blocks), network.final_modulation]]  # type: ignore[list-item]


@fused_forward(DiT, stacks=modulation_layers)
def dit_forward(network: DiT, do: Operations, x: Tensor, noise_label: Tensor) -> Tensor:
    condition = do.noise_condition(noise_label, network.noise_embedding)
    vectors = iter(do.modulations(condition, modulation_layers(network)[0]))
    # Last, so that its gradient is begun first, and made beside those of what depends on the noise level.
    tokens = do.embed(to_patches(x, network.patch), network.embed, network.positions)
    tokens = network.registers.behind(tokens)
    keys = row_keys(x) if network.drops and network.training else None
    update = None
    for block in network.blocks:
        tokens, update = dit_block(block, do, tokens, update, vectors, keys)
    _, normed = do.modulate(tokens, update, next(vectors), next(vectors), EPSILON)
    normed = network.registers.without_back(normed)
    return from_patches(do.read_out(normed, network.head), network.patch, x.shape)


def dit_block(
    block: Any,
    do: Operations,
    tokens: Tensor,
    update: Update | None,
    vectors: Iterator[Tensor],
    keys: Tensor | None,
) -> tuple[Tensor, Update]:
    """Tokens after all but the last update, and that update; shift, scale and gate of each branch come in order."""
    shift, scale, gate = (next(vectors) for _ in range(3))
    tokens, normed = do.modulate(tokens, update, shift, scale, EPSILON)
    mixed = do.attend(normed, block.query_key_value, block.heads)
    update = branch_update(do, mixed, block.project, gate, block.attention_dropout, keys)
    shift, scale, gate = (next(vectors) for _ in range(3))
    tokens, normed = do.modulate(tokens, update, shift, scale, EPSILON)
    return tokens, feed_forward(do, normed, block, gate, keys)


def feed_forward(do: Operations, normed: Tensor, block: Any, gate: Tensor | None, keys: Tensor | None) -> Update:
    """What a block's second branch adds to the tokens."""
    if keys is None:
        return do.feed_forward(normed, block.expand, block.contract, gate)
    return branch_update(do, do.activate(normed, block.expand), block.contract, gate, block.mlp_dropout, keys)


def branch_update(
    do: Operations, hidden: Tensor, layer: nn.Linear, gate: Tensor | None, dropout: RowDropout, keys: Tensor | None
) -> Update:
    """What a branch adds to the tokens; with keys (n,) of the rows, after dropout, which drops the bias too."""
    if keys is None:
        return do.update(hidden, layer, gate)
    return Update(dropout(do.linear(hidden, layer), keys), gate=gate)


@fused_forward(GPT)
def gpt_forward(network: GPT, do: Operations, tokens: Tensor, cache: Cache | None = None) -> Tensor:
    registers = network.registers
    begins = cache is None or cache.filled == 0
    hidden = gpt_embed(network, do, tokens, 0 if cache is None else max(0, cache.filled - registers.count))
    hidden = registers.in_front(hidden) if begins else hidden
    keys = network.dropout_keys(tokens) if cache is None else None
    out = gpt_blocks(network, do, hidden, keys, cache)
    if cache is not None:
        cache.filled += hidden.shape[1]
    return do.read_out(registers.without_front(out) if begins else out, network.head)


@fused_forward(FullGPT)
def full_gpt_forward(network: FullGPT, do: Operations, tokens: Tensor, noise: Any = None) -> Tensor:
    hidden = gpt_embed(network, do, tokens, 0)
    if network.noise is not None:
        hidden = hidden + network.noise_offset(noise).to(hidden.dtype)  # type: ignore[union-attr]
    keys = network.dropout_keys(tokens) if noise is None else network.dropout_keys(tokens, noise[:, None])
    out = gpt_blocks(network, do, network.registers.behind(hidden), keys)
    return do.read_out(network.registers.without_back(out), network.head)


def gpt_embed(network: GPT, do: Operations, tokens: Tensor, start: int) -> Tensor:
    positions = network.position_embedding.weight[start : start + tokens.shape[1]]
    table: nn.Embedding = network.token_embedding
    return do.look_up(tokens % table.num_embeddings, table, positions)


def gpt_blocks(network: GPT, do: Operations, hidden: Tensor, keys: Tensor | None, cache: Cache | None = None) -> Tensor:
    """Embedded tokens (n, t, width) after all blocks and the last normalisation; keys (n,) of the rows, for dropout."""
    update: Update | None = None
    blocks: Sequence[Any] = network.blocks  # type: ignore[assignment]
    for index, block in enumerate(blocks):
        hidden, normed = do.normalise(hidden, update, block.attention_norm)
        if cache is None:
            mixed = do.attend(normed, block.query_key_value, block.heads, block.causal)
        else:
            mixed = cached_attention(do.linear(normed, block.query_key_value), block.heads, cache, index)
        update = branch_update(do, mixed, block.project, None, block.attention_dropout, keys)
        hidden, normed = do.normalise(hidden, update, block.mlp_norm)
        update = feed_forward(do, normed, block, None, keys)
    return do.normalise(hidden, update, network.final_norm)[1]
