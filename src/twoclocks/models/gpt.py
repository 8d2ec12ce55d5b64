"""Causal transformer in the style of GPT-2, with a key-value cache for sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from twoclocks.kernels import PLAIN, Branch, Operations, Update
from twoclocks.kernels.plain import merge_heads, split_heads
from twoclocks.models.base import MODELS, TransformerSettings


@MODELS.register("gpt")
@dataclass(frozen=True, kw_only=True)
class GPTSettings(TransformerSettings):
    """Causal transformer (GPT-2 style): learned positions, pre-norm blocks, untied head over the symbols."""

    sizes: ClassVar[dict[str, tuple[int, int, int]]] = {
        "nano": (384, 3, 6),
        "mini": (384, 6, 6),
        "B": (768, 12, 12),
    }
    written: ClassVar[str] = "GPT"
    task: ClassVar[str] = "predict the next token"
    example: ClassVar[tuple[tuple[int, ...], int]] = ((36,), 2)

    def build(self, shape: tuple[int, ...], symbols: int) -> GPT:
        return GPT(self, length=math.prod(shape), symbols=symbols)


class Cache:
    """Keys and values of the positions read so far, one pair of buffers (n, heads, length, width/heads) a block."""

    def __init__(self, blocks: int) -> None:
        self.filled = 0
        self.entries: list[tuple[Tensor, Tensor] | None] = [None] * blocks


class GPT(nn.Module):
    """Logits (n, t, symbols) of the next symbol after each of t tokens; the start token is −1 or ``symbols``.

    The head covers the symbols only, so the start token can never be generated.
    """

    operations: Operations = PLAIN
    fusible = True
    causal: ClassVar[bool] = True

    def __init__(self, settings: GPTSettings, length: int, symbols: int) -> None:
        super().__init__()
        width, depth, heads = settings.dimensions
        self.length = length
        self.token_embedding = nn.Embedding(symbols + 1, width)
        self.position_embedding = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, length, self.causal) for _ in range(depth))
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)
        self._initialise(depth)

    def _initialise(self, depth: int) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                # GPT-2 shrinks the layers that write to the residual stream with its depth.
                residual = name.endswith(("project", "contract"))
                nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * depth) if residual else 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def new_cache(self) -> Cache:
        return Cache(len(self.blocks))

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        if cache is None:
            return self.read(self.embed(tokens))
        do, update = self.operations, None
        hidden = self.embed(tokens, cache.filled)
        for index, block in enumerate(self.blocks):
            hidden, update = block(do, hidden, update, cache, index)
        cache.filled += tokens.shape[1]
        return do.read_out(do.normalise(hidden, update, self.final_norm)[1], self.head)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Tokens (n, t) from a position on, (n, t, width)."""
        positions = self.position_embedding.weight[start : start + tokens.shape[1]]
        return self.operations.look_up(tokens % self.token_embedding.num_embeddings, self.token_embedding, positions)

    def read(self, hidden: Tensor) -> Tensor:
        """Logits of embedded tokens (n, t, width), all blocks at once."""
        do = self.operations
        branches = [branch for block in self.blocks for branch in block.branches()]  # type: ignore[operator]
        hidden, update = do.branches(hidden, branches)
        return do.read_out(do.normalise(hidden, update, self.final_norm)[1], self.head)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.length, self.causal = heads, length, causal
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def branches(self) -> tuple[Branch, Branch]:
        return (
            Branch(self.attention_norm, self.query_key_value, self.project, self.heads, self.causal),
            Branch(self.mlp_norm, self.expand, self.contract),
        )

    def forward(
        self, do: Operations, hidden: Tensor, update: Update | None, cache: Cache, index: int
    ) -> tuple[Tensor, Update]:
        """The same behind what is in the cache: hidden states, and the last update to them."""
        hidden, normed = do.normalise(hidden, update, self.attention_norm)
        mixed = self.attend_cached(do.linear(normed, self.query_key_value), cache, index)
        hidden, normed = do.normalise(hidden, do.update(mixed, self.project), self.mlp_norm)
        return hidden, do.update(do.activate(normed, self.expand), self.contract)

    def attend_cached(self, packed: Tensor, cache: Cache, index: int) -> Tensor:
        """Attention of the new positions to all that are in the cache and to each other."""
        q, k, v = split_heads(packed, self.heads)
        k, v = self.extended(cache, index, k, v)
        steps, before = q.shape[2], k.shape[2] - q.shape[2]
        if before == 0 or steps == 1:
            return merge_heads(functional.scaled_dot_product_attention(q, k, v, is_causal=steps > 1))
        seen = torch.ones(steps, before + steps, dtype=torch.bool, device=q.device).tril(before)
        return merge_heads(functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))

    def extended(self, cache: Cache, index: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new keys and values behind the old ones; return all that are filled."""
        entry = cache.entries[index]
        if entry is None:
            room = (*k.shape[:2], self.length, k.shape[3])
            entry = k.new_empty(room), v.new_empty(room)
            cache.entries[index] = entry
        end = cache.filled + k.shape[2]
        entry[0][:, :, cache.filled : end] = k
        entry[1][:, :, cache.filled : end] = v
        return entry[0][:, :, :end], entry[1][:, :, :end]
